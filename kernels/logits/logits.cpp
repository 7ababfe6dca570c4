#include "kernels/logits/logits.hpp"

#include "kernels/elementary/elementary.hpp"
#include "kernels/matmul/matmul.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <limits>
#include <numeric>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision
static_assert(std::endian::native == std::endian::little);

namespace verbatim::kernels {

namespace {

constexpr std::size_t kDigestBlock = 1024;

Bytes bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

bool all_finite(Backend, std::span<const float> logits) {
  std::uint32_t bad = 0;
  for (const float x : logits) {
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(x) & 0x7f800000u;
    bad |= exponent == 0x7f800000u ? 1u : 0u;
  }
  return bad == 0;
}

float Top2::margin() const {
  return second < 0 ? std::numeric_limits<float>::infinity() : best_value - second_value;
}

Top2 top2(Backend, std::span<const float> values) {
  VERBATIM_CHECK(!values.empty());
  Top2 top{0, -1, values[0], 0};
  for (std::size_t i = 1; i < values.size(); ++i) {
    const float x = values[i];
    if (top.second >= 0 && !(x > top.second_value)) continue;
    const auto id = static_cast<std::int32_t>(i);
    if (x > top.best_value) {
      top.second = top.best;
      top.second_value = top.best_value;
      top.best = id;
      top.best_value = x;
    } else {
      top.second = id;
      top.second_value = x;
    }
  }
  return top;
}

float LogSumExp::logprob(float x) const { return (x - max) - log_f32(sum); }

LogSumExp log_sum_exp(Backend backend, std::span<const float> logits) {
  VERBATIM_CHECK(!logits.empty());
  LogSumExp result{logits[0], 0};
  for (const float x : logits) result.max = x > result.max ? x : result.max;
  // A few blocks at a time, so that the exponentials stay in the cache. Their sums are independent chains.
  constexpr std::size_t kSide = 8;
  float e[kSide * kBlock];
  for (std::size_t begin = 0; begin < logits.size(); begin += kSide * kBlock) {
    const std::size_t n = std::min(kSide * kBlock, logits.size() - begin);
    for (std::size_t i = 0; i < n; ++i) e[i] = logits[begin + i] - result.max;
    exp_f32(backend, e, n, e);
    float s[kSide] = {};
    if (n == kSide * kBlock) {
      for (std::size_t k = 0; k < kBlock; ++k) {
        for (std::size_t b = 0; b < kSide; ++b) s[b] = s[b] + e[b * kBlock + k];
      }
    } else {
      for (std::size_t i = 0; i < n; ++i) s[i / kBlock] = s[i / kBlock] + e[i];
    }
    for (std::size_t b = 0; b * kBlock < n; ++b) result.sum = result.sum + s[b];
  }
  return result;
}

std::vector<std::int32_t> top_ids(std::span<const float> values, std::size_t count) {
  std::vector<std::int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), before);
  ids.erase(end, ids.end());
  return ids;
}

Digest row_digest(std::span<const float> logits) {
  Sha256 row;
  for (std::size_t begin = 0; begin < logits.size(); begin += kDigestBlock) {
    const std::size_t n = std::min(kDigestBlock, logits.size() - begin);
    row.update(verbatim::sha256(bytes_of(logits.subspan(begin, n))).view());
  }
  return row.finish();
}

}  // namespace verbatim::kernels
