#pragma once
// How near the model was to another token: margins counted in fixed classes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace verbatim::replay {

/// Margins in logit units. Below the second another kernel's rounding could choose otherwise.
inline constexpr float kNear = 0.1F, kVeryNear = 0.01F;

/// Tokens by margin (best score minus runner-up, logit units). Class 0 is below kMarginEdges[0], class i from
/// kMarginEdges[i-1] up to kMarginEdges[i], the last from the last edge on.
class MarginCounts {
 public:
  /// Two a decade: 10^-6, 10^-5.5, ..., 100.
  static constexpr std::array<float, 17> kEdges = {
      1e-6F, 3.1622776e-6F, 1e-5F, 3.1622776e-5F, 1e-4F, 3.1622776e-4F,
      1e-3F, 3.1622776e-3F, 1e-2F, 3.1622776e-2F, 1e-1F, 3.1622776e-1F,
      1.0F,  3.1622776F,    10.0F, 31.622776F,    100.0F};
  static constexpr std::size_t kClasses = kEdges.size() + 1;

  [[nodiscard]] static std::size_t class_of(float margin) {
    std::size_t at = 0;
    while (at < kEdges.size() && margin >= kEdges[at]) ++at;
    return at;
  }
  void add(float margin) { ++counts_[class_of(margin)]; }
  void add(const MarginCounts& other) {
    for (std::size_t i = 0; i < kClasses; ++i) counts_[i] += other.counts_[i];
  }
  void set(std::size_t index, std::uint64_t count) { counts_[index] = count; }
  [[nodiscard]] const std::array<std::uint64_t, kClasses>& counts() const { return counts_; }
  [[nodiscard]] bool empty() const { return total() == 0; }
  [[nodiscard]] std::uint64_t total() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
  }
  /// Below an edge.
  [[nodiscard]] std::uint64_t below(float edge) const {
    const auto end = static_cast<std::ptrdiff_t>(class_of(edge));
    return std::accumulate(counts_.begin(), counts_.begin() + end, std::uint64_t{0});
  }

 private:
  std::array<std::uint64_t, kClasses> counts_{};
};

}  // namespace verbatim::replay
