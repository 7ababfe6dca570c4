#pragma once
// Time, injected: nothing in the project reads a clock but through this.

#include "schema/error.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim {

/// A source of time. Implementations may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Unix time, UTC, microseconds. May jump when an administrator sets the clock.
  [[nodiscard]] virtual std::int64_t now_us() const = 0;
  /// Microseconds since some fixed moment. Never goes back.
  [[nodiscard]] virtual std::int64_t steady_us() const = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_us() const override;
  [[nodiscard]] std::int64_t steady_us() const override;
};

/// A clock that stands still until told to move. For tests and reproducible runs.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t now_us) : now_us_(now_us) {}
  [[nodiscard]] std::int64_t now_us() const override { return now_us_; }
  [[nodiscard]] std::int64_t steady_us() const override { return now_us_; }
  void advance_us(std::int64_t by) { now_us_ += by; }

 private:
  std::atomic<std::int64_t> now_us_;
};

/// RFC 3339, UTC, six fractional digits: `2026-11-29T12:34:56.000123Z`. No locale, no time zone.
[[nodiscard]] std::string format_rfc3339(std::int64_t unix_us);

/// Accepts RFC 3339 with any number of fractional digits and any offset, and a bare date (midnight UTC).
/// Leap second 60 reads as the next second. `invalid_input` otherwise.
[[nodiscard]] Result<std::int64_t> parse_rfc3339(std::string_view text);

}  // namespace verbatim
