#pragma once
// Deadlines for thousands of sockets at the cost of one store each: a single timer looks at all of
// them a few times a second, instead of a timer operation for every read and write.

#include "gateway/net.hpp"
#include "schema/clock.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>

namespace verbatim::gateway {

/// On the gateway's thread. Must outlive its entries.
class Deadlines {
 public:
  static constexpr std::chrono::milliseconds kResolution{20};

  Deadlines(net::io_context& io, const Clock& clock) : timer_(io), clock_(clock) {}

  void start();
  void stop();

  /// One deadline. `on_expire` runs at most kResolution late, once for each arm(); it may cancel
  /// operations but must not destroy entries.
  class Entry {
   public:
    Entry(Deadlines& owner, std::function<void()> on_expire);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    void arm(std::chrono::milliseconds after);
    void disarm() { at_us_ = kNever; }

   private:
    friend class Deadlines;
    static constexpr std::int64_t kNever = INT64_MAX;
    Deadlines& owner_;
    std::function<void()> on_expire_;
    std::int64_t at_us_ = kNever;
    std::list<Entry*>::iterator place_;
  };

 private:
  void tick();

  net::steady_timer timer_;
  const Clock& clock_;
  std::list<Entry*> entries_;
  bool stopped_ = false;
};

}  // namespace verbatim::gateway
