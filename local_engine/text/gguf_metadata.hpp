#pragma once
// The header and the key-value section of a GGUF file (ggml's docs/gguf.md, versions 2 and 3, little-endian).
//
//   "GGUF", u32 version, u64 tensor_count, u64 kv_count, kv_count * (string key, u32 type, value), tensor infos...
//   string: u64 length, bytes; array: u32 element type, u64 count, elements; arrays may nest
//
// Every count and length is checked against the bytes that are left before anything is allocated for it,
// so a hostile file costs at most a small multiple of its size.

#include "schema/bytes.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace verbatim::local_engine {

/// The numbers of the format.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

struct GgufArray;

/// One value. Integers are widened: unsigned kinds and booleans to u64, signed kinds to i64, floats to f64.
using GgufScalar = std::variant<std::uint64_t, std::int64_t, double, std::string>;

/// Elements of one type, widened as GgufScalar is.
struct GgufArray {
  GgufType element{};
  std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>,
               std::vector<std::string>, std::vector<GgufArray>>
      items;
  [[nodiscard]] std::size_t size() const;
};

struct GgufValue {
  GgufType type{};
  std::variant<GgufScalar, GgufArray> value;
};

/// Reads little-endian fields from borrowed bytes and never beyond them. After the first failure every
/// later read fails too, so a caller may check ok() once for several reads.
class GgufReader {
 public:
  explicit GgufReader(Bytes bytes, std::size_t offset = 0) : bytes_(bytes), at_(offset) {
    ok_ = offset <= bytes.size();
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t offset() const { return at_; }
  [[nodiscard]] std::size_t left() const { return ok_ ? bytes_.size() - at_ : 0; }
  /// 1, 2, 4 or 8 bytes; 0 after a failure.
  [[nodiscard]] std::uint64_t number(std::size_t size);
  /// u64 length and that many bytes (at most `bytes_max`), borrowed; empty after a failure.
  [[nodiscard]] std::string_view string(std::uint64_t bytes_max);
  void fail() { ok_ = false; }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

/// The metadata of one file. Keys are unique (a duplicate is refused) and iterate in byte order.
class GgufMetadata {
 public:
  /// `file`: the file's bytes, or a prefix that holds the section. Copies what it keeps.
  /// `invalid_input`: not GGUF, cut short, a count beyond the bytes, a bad or duplicate key, an unknown
  /// type, arrays nested deeper than 4. `unsupported`: version 1, big-endian. `newer_version`: above 3.
  [[nodiscard]] static Result<GgufMetadata> parse(Bytes file, std::string_view where);

  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::uint64_t tensor_count() const { return tensor_count_; }
  /// Offset of the first tensor info: where a reader of tensors goes on.
  [[nodiscard]] std::size_t end() const { return end_; }
  [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& values() const {
    return values_;
  }
  [[nodiscard]] bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  [[nodiscard]] const GgufValue* find(std::string_view key) const;

  // A missing key gives `fallback`, or `invalid_input` when there is none. A value of another kind is
  // always `invalid_input`: a default in its place would be an approximation.

  /// Any integer type; negative values are refused.
  [[nodiscard]] Result<std::uint64_t> integer(
      std::string_view key, std::optional<std::uint64_t> fallback = std::nullopt) const;
  /// Floats, and integers up to 2^53.
  [[nodiscard]] Result<double> number(std::string_view key,
                                      std::optional<double> fallback = std::nullopt) const;
  [[nodiscard]] Result<bool> boolean(std::string_view key,
                                     std::optional<bool> fallback = std::nullopt) const;
  [[nodiscard]] Result<std::string> text(std::string_view key,
                                         std::optional<std::string> fallback = std::nullopt) const;
  /// Borrowed from this object; null when the key is missing.
  [[nodiscard]] Result<const GgufArray*> array(std::string_view key) const;

  /// SHA-256 over the values whose key starts with `prefix`, in byte order of the keys: for each the key,
  /// its type and its value in a length-prefixed form that depends on nothing else in the file.
  [[nodiscard]] Digest digest(std::string_view prefix) const;

 private:
  Error wrong(std::string_view key, std::string_view expected) const;

  std::string where_;
  std::uint32_t version_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::size_t end_ = 0;
  std::map<std::string, GgufValue, std::less<>> values_;
};

/// Maps the file and parses its metadata. Errors as parse(), and `not_found`, `storage_failed`.
[[nodiscard]] Result<GgufMetadata> read_gguf_metadata(const std::filesystem::path& path);

}  // namespace verbatim::local_engine
