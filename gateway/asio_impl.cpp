// The one file that compiles Asio's and Beast's own sources (BOOST_*_SEPARATE_COMPILATION).

#define BOOST_ENABLE_ASSERT_HANDLER
#include "schema/error.hpp"

#include <boost/assert.hpp>

#include <string_view>

/// Without NDEBUG a broken assertion of these sources ends the process, but for one that peers can break, and rightly: when
/// a body's last chunk has come ("0\r\n"), Beast 1.81 expects two more bytes at once, and waits well if it is one.
void boost::assertion_failed(const char* expression, const char* /*function*/, const char* file,
                             long line) {
  const bool of_last_chunk = std::string_view(expression) == "n >= 5" &&
                             std::string_view(file).ends_with("basic_parser.ipp");
  if (!of_last_chunk) verbatim::check_failed(expression, file, static_cast<int>(line));
}
void boost::assertion_failed_msg(const char* expression, const char* /*message*/,
                                 const char* function, const char* file, long line) {
  assertion_failed(expression, function, file, line);
}

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
