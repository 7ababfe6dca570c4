#include "schema/uuid.hpp"

#include "schema/bytes.hpp"
#include "schema/digest.hpp"

#include <algorithm>

namespace verbatim {

std::string Uuid::str() const {
  const std::string hex = to_hex(bytes);
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20);
}

Result<Uuid> parse_uuid(std::string_view text) {
  const Error error{Errc::invalid_input,
                    "'" + std::string(text.substr(0, 64)) + "' is not a record id", "",
                    "a record id looks like 0193a5e0-7c1a-7b3e-9d2f-0123456789ab"};
  if (text.size() != 36) return error;
  std::string hex;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    if (hyphen != (text[i] == '-')) return error;
    if (!hyphen) hex.push_back(text[i]);
  }
  const auto bytes = from_hex(hex);
  if (!bytes) return error;
  Uuid uuid;
  std::copy(bytes->begin(), bytes->end(), uuid.bytes.begin());
  return uuid;
}

Uuid UuidGenerator::next() {
  std::uint64_t stamp = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto now_ms =
        static_cast<std::uint64_t>(std::max<std::int64_t>(clock_.now_us(), 0) / 1000);
    // The 12 bits after the milliseconds count ids within one, and carry into it when they overflow.
    last_ = std::max(last_ + 1, now_ms << 12);
    stamp = last_;
  }
  Uuid uuid;
  fill_random(uuid.bytes);
  for (std::size_t i = 0; i < 6; ++i) {
    uuid.bytes[i] = static_cast<std::uint8_t>(stamp >> (52 - 8 * i));
  }
  uuid.bytes[6] = static_cast<std::uint8_t>(0x70 | ((stamp >> 8) & 0x0f));
  uuid.bytes[7] = static_cast<std::uint8_t>(stamp);
  uuid.bytes[8] = static_cast<std::uint8_t>(0x80 | (uuid.bytes[8] & 0x3f));
  return uuid;
}

}  // namespace verbatim
