// What is said of a row of logits.

#include "kernels/logits/logits.hpp"

#include "kernels/elementary/elementary.hpp"
#include "support.hpp"

#include <algorithm>
#include <limits>

namespace verbatim::kernels::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Logits, ANanOrInfinityAnywhereIsFound) {
  for (const Backend backend : supported_backends()) {
    for (const std::size_t count : {1, 15, 16, 17, 100}) {
      std::vector<float> x = random_floats(count, count);
      x[0] = std::numeric_limits<float>::max();
      EXPECT_TRUE(all_finite(backend, x));
      for (std::size_t i = 0; i < count; ++i) {
        for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
          std::vector<float> broken = x;
          broken[i] = bad;
          EXPECT_FALSE(all_finite(backend, broken)) << i << " of " << count;
        }
      }
    }
  }
}

TEST(Logits, TheSmallestIdWinsATie) {
  const std::vector<float> x = {1, 5, -2, 5, 5, 0};
  const Top2 top = top2(Backend::scalar, x);
  EXPECT_EQ(top.best, 1);
  EXPECT_EQ(top.second, 3);
  EXPECT_EQ(top.margin(), 0);
  EXPECT_EQ(top2(Backend::scalar, std::vector<float>{-0.0f, 0.0f}).best, 0);
}

TEST(Logits, BestAndRunnerUpAreThoseOfASort) {
  Random random(1);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<float> x(1 + random.below(40));
    for (float& v : x) v = static_cast<float>(random.below(6)) - 3;  // many ties
    const std::vector<std::int32_t> sorted = top_ids(x, x.size());
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      const auto a = static_cast<std::size_t>(sorted[i - 1]),
                 b = static_cast<std::size_t>(sorted[i]);
      ASSERT_TRUE(x[a] > x[b] || (x[a] == x[b] && a < b));
    }
    for (const Backend backend : supported_backends()) {
      const Top2 top = top2(backend, x);
      EXPECT_EQ(top.best, sorted[0]);
      EXPECT_EQ(top.second, x.size() > 1 ? sorted[1] : -1);
    }
  }
}

TEST(Logits, ALoneLogitHasAnInfiniteMargin) {
  const Top2 top = top2(Backend::scalar, std::vector<float>{2.5f});
  EXPECT_EQ(top.second, -1);
  EXPECT_EQ(top.margin(), kInfinity);
}

TEST(Logits, LogSumExpFollowsTheProfilesOrder) {
  for (const std::size_t count : {1, 255, 256, 257, 2048, 2049, 5000, 32000}) {
    std::vector<float> x = random_floats(count, count);
    for (float& v : x) v *= 20;
    float m = x[0], l = 0;
    for (const float v : x) m = v > m ? v : m;
    for (std::size_t block = 0; block < count; block += 256) {
      float s = 0;
      for (std::size_t i = block; i < std::min<std::size_t>(block + 256, count); ++i)
        s = s + exp_f32(x[i] - m);
      l = l + s;
    }
    for (const Backend backend : supported_backends()) {
      const LogSumExp both = log_sum_exp(backend, x);
      EXPECT_TRUE(same_bits(both.max, m));
      EXPECT_TRUE(same_bits(both.sum, l)) << count << " on " << name(backend);
      EXPECT_TRUE(same_bits(both.logprob(x[count / 2]), (x[count / 2] - m) - log_f32(l)));
    }
  }
}

TEST(Logits, ARowDigestHashesTheDigestsOfItsBlocks) {
  const std::vector<float> x = random_floats(2500, 1);
  const auto bytes = [&](std::size_t first, std::size_t count) {
    return sha256(Bytes(reinterpret_cast<const std::uint8_t*>(x.data() + first), count * 4));
  };
  const Digest a = bytes(0, 1024), b = bytes(1024, 1024), c = bytes(2048, 452);
  EXPECT_EQ(row_digest(x), sha256({a.view(), b.view(), c.view()}));
  EXPECT_EQ(row_digest(std::span(x).first(1024)), sha256(a.view()));
}

}  // namespace
}  // namespace verbatim::kernels::test
