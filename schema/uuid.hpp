#pragma once
// Record ids: UUID version 7 (RFC 9562 section 5.7), so that they sort by time of creation.

#include "schema/clock.hpp"
#include "schema/error.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace verbatim {

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  /// Lower case, with hyphens.
  [[nodiscard]] std::string str() const;
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

/// Accepts the hyphenated form in either case. `invalid_input` otherwise.
[[nodiscard]] Result<Uuid> parse_uuid(std::string_view text);

/// Makes version 7 ids. Ids of one generator strictly increase, also when the clock goes back.
/// Thread-safe. The clock must outlive it.
class UuidGenerator {
 public:
  explicit UuidGenerator(const Clock& clock) : clock_(clock) {}
  [[nodiscard]] Uuid next();

 private:
  const Clock& clock_;
  std::mutex mutex_;        // one id at a time, so that they increase
  std::uint64_t last_ = 0;  // milliseconds << 12 | counter
};

}  // namespace verbatim
