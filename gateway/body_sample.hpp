#pragma once
// What is kept of a body that is too long to be kept: how long it is, its digest, and how it begins.

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace verbatim::gateway {

class BodySample {
 public:
  explicit BodySample(std::size_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}

  void add(std::string_view piece) {
    bytes_ += piece.size();
    digest_.update(piece);
    beginning_.append(
        piece.substr(0, kept_bytes_max_ - std::min(kept_bytes_max_, beginning_.size())));
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// For the leaf: `bytes` and how many of them are `recorded`.
  [[nodiscard]] Json describe() const {
    return {{"bytes", bytes_}, {"recorded", std::min<std::uint64_t>(bytes_, kept_bytes_max_)}};
  }
  /// For the contents, because a digest alone tells whether a body is a certain one: {"bytes", "sha256"}. Call once.
  [[nodiscard]] std::string digest_content() {
    return canonical(Json{{"bytes", bytes_}, {"sha256", digest_.finish().hex()}});
  }
  [[nodiscard]] std::string take_beginning() { return std::move(beginning_); }

 private:
  std::size_t kept_bytes_max_;
  std::uint64_t bytes_ = 0;
  Sha256 digest_;
  std::string beginning_;
};

}  // namespace verbatim::gateway
