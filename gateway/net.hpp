#pragma once
// The few names of Asio that the gateway uses, and how work from other threads comes back to its
// one thread.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace verbatim::gateway {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;

/// Peers' failures are values: `const auto [error, n] = co_await op(..., kTuple)`.
inline constexpr auto kTuple = net::as_tuple(net::use_awaitable);

/// Brings work from any thread to the gateway's thread, in order, with one wake-up for all that is
/// waiting. Work that arrives after close() is dropped.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  explicit Mailbox(net::io_context& io) : io_(io) {}

  /// Any thread.
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    waiting_.push_back(std::move(work));
    if (std::exchange(scheduled_, true)) return;
    net::post(io_, [self = shared_from_this()] { self->drain(); });
  }

  /// Called before the io_context goes: nothing is posted to it afterwards, and what still waits is dropped, since it
  /// may hold on to what holds this mailbox.
  void close() {
    std::vector<std::function<void()>>
        dropped;  // outside the lock: what goes with it may call here
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(waiting_);
  }

 private:
  void drain() {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(waiting_);
      scheduled_ = false;
    }
    for (auto& each : work) each();
  }

  net::io_context& io_;
  std::mutex mutex_;  // guards all below
  std::vector<std::function<void()>> waiting_;
  bool scheduled_ = false;
  bool closed_ = false;
};

/// A point where one coroutine waits until something on the same thread wakes it. Reusable: each
/// wake() ends one wait(), whichever comes first. Hold it by shared_ptr where the waker may outlive
/// the waiter.
class Signal {
 public:
  [[nodiscard]] net::awaitable<void> wait() {
    if (!std::exchange(set_, false)) {
      co_await net::async_initiate<const net::use_awaitable_t<>, void()>(
          [this](Handler handler) { handler_.emplace(std::move(handler)); }, net::use_awaitable);
      set_ = false;
    }
  }

  void wake() {
    set_ = true;
    if (!handler_) return;
    Handler handler = std::move(*handler_);
    handler_.reset();
    std::move(handler)();
  }

 private:
  using Handler = net::async_result<std::decay_t<net::use_awaitable_t<>>, void()>::handler_type;
  std::optional<Handler> handler_;  // of the coroutine that waits
  bool set_ = false;
};

}  // namespace verbatim::gateway
