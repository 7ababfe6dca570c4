#include "audit/append_socket.hpp"
#include "audit/log.hpp"

#include <chrono>
#include <thread>

namespace verbatim::audit {

Result<std::unique_ptr<Appender>> open_appender(const std::filesystem::path& data_dir,
                                                const Clock& clock) {
  LogOptions options;
  options.data_dir = data_dir;
  options.create = false;
  options.listen = false;
  // The holder may be on its way in or out: neither the lock nor the socket is there for a moment.
  Result<std::unique_ptr<Appender>> connected = Error{};
  for (int attempt = 0; attempt < 40; ++attempt) {
    auto log = Log::open(options, clock);
    if (log) return std::unique_ptr<Appender>(std::move(*log));
    if (log.error().code != Errc::unavailable) return log.error();
    connected = connect_appender(data_dir);
    if (connected) return connected;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return connected;
}

}  // namespace verbatim::audit
