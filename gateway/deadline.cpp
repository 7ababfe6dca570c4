#include "gateway/deadline.hpp"

namespace verbatim::gateway {

Deadlines::Entry::Entry(Deadlines& owner, std::function<void()> on_expire)
    : owner_(owner),
      on_expire_(std::move(on_expire)),
      place_(owner.entries_.insert(owner.entries_.end(), this)) {}

Deadlines::Entry::~Entry() { owner_.entries_.erase(place_); }

void Deadlines::Entry::arm(std::chrono::milliseconds after) {
  at_us_ = owner_.clock_.steady_us() + after.count() * 1000;
}

void Deadlines::start() {
  timer_.expires_after(kResolution);
  timer_.async_wait([this](error_code error) {
    if (error || stopped_) return;
    tick();
    start();
  });
}

void Deadlines::stop() {
  stopped_ = true;
  timer_.cancel();
}

void Deadlines::tick() {
  const std::int64_t now = clock_.steady_us();
  for (auto each = entries_.begin(); each != entries_.end();) {
    Entry& entry = **each;
    ++each;
    if (entry.at_us_ > now) continue;
    entry.disarm();
    entry.on_expire_();
  }
}

}  // namespace verbatim::gateway
