#pragma once
// Contents: what a leaf commits to, packed (compressed), sealed (encrypted) and opened again.
//
//   commitment = SHA-256("verbatim/commit/v1" || 0x00 || salt || bytes)
//   sealed     = AES-256-GCM(record's key, salt || payload), payload = bytes, or their zstd frame
//   associated = "verbatim/content/v1" || 0x00 || leaf index (64 bits, big-endian) || codec (8 bits) || field
//
// The salt is inside the ciphertext: erasing the key erases it too, and the commitment then says nothing.

#include "audit/aead.hpp"
#include "audit/log.hpp"
#include "schema/digest.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

typedef struct ZSTD_CCtx_s ZSTD_CCtx;

namespace verbatim::audit {

using Salt = std::array<std::uint8_t, 32>;

/// A leaf has at most this many contents; content.id in the database is index * 16 + place.
inline constexpr std::uint64_t kContentsMax = 16;
/// The largest content. SQLite's own limit for a row is 1e9 bytes.
inline constexpr std::uint64_t kContentBytesMax = 512u << 20;

[[nodiscard]] Digest commitment(const Salt& salt, Bytes bytes);

/// True for what may name a content: words of `[a-z0-9_]` with dots between, 1 to 64 bytes, the last word not "salt"
/// (bundles use that name).
[[nodiscard]] bool is_field_name(std::string_view field);

/// A content, ready to be sealed.
struct PackedContent {
  std::string field;
  Salt salt{};
  Digest commitment;
  std::uint64_t bytes = 0;  ///< before compression
  int codec = 0;            ///< 0 as is, 1 zstd
  std::string payload;
};

/// Commits to contents and compresses them. Reuses one context: one thread at a time.
class Packer {
 public:
  Packer();
  [[nodiscard]] PackedContent pack(Content content);

 private:
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context_;
};

[[nodiscard]] std::string seal_content(Aead& aead, const SymmetricKey& key, std::uint64_t index,
                                       const PackedContent& content);

/// What a leaf says of one content.
struct ContentReference {
  std::string field;
  Digest commitment;
  std::uint64_t bytes = 0;
};

struct UnsealedContent {
  Salt salt{};
  std::string bytes;
};

/// Decrypts and decompresses, never more than the leaf says. `tampered` if that fails; the commitment is not checked.
[[nodiscard]] Result<UnsealedContent> unseal_content(Aead& aead, const SymmetricKey& key,
                                                     std::uint64_t index,
                                                     const ContentReference& reference, int codec,
                                                     Bytes sealed);

/// True if the content is what the leaf committed to.
[[nodiscard]] bool matches(const ContentReference& reference, const UnsealedContent& content);

/// What the wrapped key of record `index` is bound to.
[[nodiscard]] std::string dek_purpose(std::uint64_t index);

}  // namespace verbatim::audit
