#include "audit/append_socket.hpp"
#include "audit/log.hpp"

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

namespace verbatim::audit {

namespace {

/// The log itself, or a connection to the process that holds it.
struct Opened {
  std::unique_ptr<Appender> appender;
  bool connected = false;
};

Result<Opened> open_once(const std::filesystem::path& data_dir, const Clock& clock,
                         const Warn& warn) {
  LogOptions options;
  options.data_dir = data_dir;
  options.create = false;
  options.warn = warn;
  // The holder may be on its way in or out: neither the lock nor the socket is there for a moment.
  Result<std::unique_ptr<Appender>> connected = Error{};
  for (int attempt = 0; attempt < 40; ++attempt) {
    auto log = Log::open(options, clock);
    if (log) return Opened{std::move(*log), false};
    if (log.error().code != Errc::unavailable) return log.error();
    connected = connect_appender(data_dir);
    if (connected) return Opened{std::move(*connected), true};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return connected.error();
}

/// Appends through the process that holds the log; when that ends, through the one that holds it then, or as the holder.
class SuccessiveAppender final : public Appender {
 public:
  SuccessiveAppender(std::unique_ptr<Appender> first, std::filesystem::path data_dir,
                     const Clock& clock, Warn warn)
      : appender_(std::move(first)),
        data_dir_(std::move(data_dir)),
        clock_(clock),
        warn_(std::move(warn)) {}

  Result<Appended> append_and_wait(LeafDraft draft) override {
    constexpr int kHoldersMax = 8;
    const std::lock_guard lock(mutex_);
    auto appended = appender_->append_and_wait(draft);
    // `unavailable`: the leaf was not appended. `in_doubt` is for the caller to judge.
    for (int holder = 1; holder < kHoldersMax && connected_ && !appended &&
                         appended.error().code == Errc::unavailable;
         ++holder) {
      auto next = open_once(data_dir_, clock_, warn_);
      if (!next) return next.error();
      appender_ = std::move(next->appender);
      connected_ = next->connected;
      appended = appender_->append_and_wait(draft);
    }
    return appended;
  }

  Result<ErasureReport> erase(const EraseRequest& request) override {
    const std::lock_guard lock(mutex_);
    return appender_->erase(request);
  }

 private:
  std::mutex mutex_;  // guards the members below
  std::unique_ptr<Appender> appender_;
  bool connected_ = true;
  std::filesystem::path data_dir_;
  const Clock& clock_;
  Warn warn_;
};

}  // namespace

Result<std::unique_ptr<Appender>> open_appender(const std::filesystem::path& data_dir,
                                                const Clock& clock, const Warn& warn) {
  auto opened = open_once(data_dir, clock, warn);
  if (!opened) return opened.error();
  if (!opened->connected) return std::move(opened->appender);
  return std::unique_ptr<Appender>(
      std::make_unique<SuccessiveAppender>(std::move(opened->appender), data_dir, clock, warn));
}

}  // namespace verbatim::audit
