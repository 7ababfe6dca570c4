#pragma once
// How every fallible function in this project reports a failure that its caller can act on.

#include <boost/system/result.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace verbatim {

/// What a caller can do about a failure. The numbers appear in evidence: append, never renumber.
enum class Errc {
  invalid_input = 1,   ///< Malformed or out of bounds. Tell whoever sent it; a retry cannot help.
  not_found = 2,       ///< The named record, model or file does not exist.
  unsupported = 3,     ///< Well formed, but something this build does not do. Refused by name.
  newer_version = 4,   ///< Written by a newer verbatim. Nothing was changed.
  tampered = 5,        ///< Stored bytes do not match what was committed to.
  storage_failed = 6,  ///< The disk or SQLite refused. Nothing was changed.
  in_doubt = 7,  ///< A commit failed in a way that may have taken effect. Stop; restart reconciles.
  unavailable = 8,      ///< Another process holds it, or it is shutting down. A retry may help.
  upstream_failed = 9,  ///< A remote server refused, timed out or hung up.
  out_of_range =
      10,          ///< Arithmetic left the numerics profile (`range`): NaN or infinity in a result.
  cancelled = 11,  ///< The caller asked for it to stop.
  erased = 12,     ///< The contents were erased on purpose; a leaf says so.
};

/// A failure: what a caller can do, and three short texts for the person who reads it. They are printed
/// as `verbatim: <what> (<where>): <advice>`. Lower case, no full stop. Never a secret.
struct Error {
  Errc code{};
  std::string
      what;  ///< The thing that failed and the value: "leaf 17 does not hash to its tree node".
  std::string where;   ///< The file, address, field or record. May be empty.
  std::string advice;  ///< What to do. May be empty.

  /// The three texts in one line, without the leading "verbatim: ".
  [[nodiscard]] std::string message() const {
    std::string text = what;
    if (!where.empty()) text += " (" + where + ")";
    if (!advice.empty()) text += ": " + advice;
    return text;
  }
};

/// Lets `Result::value()` throw, for constructors, main() and tests. Library code asks `if (!result)`.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::runtime_error(error.message());
}

/// A `T`, or the reason there is none. Boost 1.81's own `result` may be ignored silently; this may not.
template <class T>
class [[nodiscard]] Result : public boost::system::result<T, Error> {
 public:
  using boost::system::result<T, Error>::result;
};

/// Checks an invariant that guards the log or the bits. Stays on in release: a wrong log is worse than
/// a stopped process.
#define VERBATIM_CHECK(condition)                                               \
  do {                                                                          \
    if (!(condition)) ::verbatim::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)

/// Prints the broken condition and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace verbatim
