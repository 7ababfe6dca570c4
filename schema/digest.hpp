#pragma once
// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104), by OpenSSL.

#include "schema/bytes.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace verbatim {

/// 32 bytes: a SHA-256 value.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  [[nodiscard]] std::string hex() const { return to_hex(bytes); }
  [[nodiscard]] Bytes view() const { return bytes; }
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// 64 hexadecimal digits; `invalid_input` otherwise.
[[nodiscard]] Result<Digest> parse_digest(std::string_view hex);

/// SHA-256 over the pieces one after another.
[[nodiscard]] Digest sha256(std::initializer_list<Bytes> pieces);
[[nodiscard]] inline Digest sha256(Bytes bytes) { return sha256({bytes}); }
[[nodiscard]] inline Digest sha256(std::string_view text) { return sha256({as_bytes(text)}); }

/// HMAC-SHA-256 over the pieces one after another.
[[nodiscard]] Digest hmac_sha256(Bytes key, std::initializer_list<Bytes> pieces);

/// SHA-256 of bytes that come in pieces. Movable; one thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&& other) noexcept;
  Sha256& operator=(Sha256&& other) noexcept;

  void update(Bytes bytes);
  void update(std::string_view text) { update(as_bytes(text)); }
  /// The value so far; the object starts anew.
  [[nodiscard]] Digest finish();

 private:
  void* context_;  // EVP_MD_CTX, owned
};

/// Cryptographically strong random bytes. Throws only when the system has none.
void fill_random(std::span<std::uint8_t> out);

}  // namespace verbatim
