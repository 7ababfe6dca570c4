// Attention: the blocks and merges of the profile, and that pages, chunks, neighbours, threads and backend change no bit.

#include "kernels/attention/attention.hpp"

#include "kernels/elementary/elementary.hpp"
#include "kernels/matmul/matmul.hpp"
#include "support.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

namespace verbatim::kernels::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct AlignedFloats {
  explicit AlignedFloats(std::size_t count) : storage(count + 16) {
    // What was never stored must not matter.
    std::fill(storage.begin(), storage.end(), std::numeric_limits<float>::quiet_NaN());
  }
  float* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    return storage.data() + (64 - address % 64) % 64 / sizeof(float);
  }
  std::vector<float> storage;
};

/// A sequence: queries, keys and values of every position, and the pages that hold them.
struct Sequence {
  Sequence(const AttentionShape& of, std::size_t length, std::uint64_t seed,
           Kind kind = Kind::ordinary)
      : shape(of),
        q(random_floats(length * of.heads * of.head_dim, seed, kind)),
        k(random_floats(length * of.kv_heads * of.head_dim, seed + 1, kind)),
        v(random_floats(length * of.kv_heads * of.head_dim, seed + 2, kind)) {
    for (std::size_t p = 0; p < length; ++p) {
      if (p % kBlock == 0) {
        const std::size_t size = kv_page_floats(of.kv_heads, of.head_dim);
        memory.push_back(std::make_unique<AlignedFloats>(size));
        memory.push_back(std::make_unique<AlignedFloats>(size));
        pages.push_back({memory[memory.size() - 2]->data(), memory.back()->data()});
      }
      const std::size_t at = p * of.kv_heads * of.head_dim;
      kv_store(of, pages.back(), p % kBlock, k.data() + at, v.data() + at);
    }
  }

  AttentionShape shape;
  std::vector<float> q, k, v;  // (length, heads or kv_heads, head_dim)
  std::vector<std::unique_ptr<AlignedFloats>> memory;
  std::vector<KvPage> pages;

  [[nodiscard]] std::size_t width() const { return shape.heads * shape.head_dim; }
};

struct Output {
  std::vector<float> values;
  std::vector<bool> range;
};

/// The rows at `positions`, in one call.
Output run(Backend backend, const Sequence& s, const std::vector<std::size_t>& positions,
           ThreadPool* pool = nullptr) {
  Output output;
  output.values.resize(positions.size() * s.width());
  std::vector<AttentionRow> rows;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    rows.push_back({s.q.data() + positions[i] * s.width(), output.values.data() + i * s.width(),
                    positions[i], s.pages.data(), false});
  }
  attention(backend, s.shape, rows, pool);
  for (const AttentionRow& row : rows) output.range.push_back(row.range);
  return output;
}

/// Section 5 of the profile for one query head, from plain arrays: no pages.
std::vector<float> profile_attention(const Sequence& s, std::size_t position, std::size_t head) {
  const std::size_t dim = s.shape.head_dim;
  const std::size_t kv_head = head / (s.shape.heads / s.shape.kv_heads);
  const float* q = s.q.data() + position * s.width() + head * dim;
  const auto row_of = [&](const std::vector<float>& all, std::size_t j) {
    return all.data() + (j * s.shape.kv_heads + kv_head) * dim;
  };
  float m = -kInfinity, l = 0;
  std::vector<float> o(dim, 0.0f);
  for (std::size_t block = 0; block <= position; block += 256) {
    std::vector<std::size_t> allowed;
    for (std::size_t j = block; j < block + 256 && j <= position; ++j) {
      if (s.shape.window == 0 || position < s.shape.window || position - s.shape.window < j)
        allowed.push_back(j);
    }
    if (allowed.empty()) continue;
    std::vector<float> score;
    float m_b = -kInfinity;
    for (const std::size_t j : allowed) {
      float x = dot(q, row_of(s.k, j), dim) * s.shape.scale;
      if (s.shape.softcap != 0) x = s.shape.softcap * tanh_f32(x / s.shape.softcap);
      score.push_back(x);
      m_b = x > m_b ? x : m_b;
    }
    float l_b = 0;
    std::vector<float> o_b(dim, 0.0f);
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      const float e = exp_f32(score[i] - m_b);
      l_b = l_b + e;
      for (std::size_t d = 0; d < dim; ++d)
        o_b[d] = std::fma(e, row_of(s.v, allowed[i])[d], o_b[d]);
    }
    const float m_new = m > m_b ? m : m_b;
    const float a = exp_f32(m - m_new), c = exp_f32(m_b - m_new);
    l = std::fma(l, a, l_b * c);
    for (std::size_t d = 0; d < dim; ++d) o[d] = std::fma(o[d], a, o_b[d] * c);
    m = m_new;
  }
  for (float& x : o) x = x / l;
  return o;
}

std::vector<std::size_t> all_positions(std::size_t length) {
  std::vector<std::size_t> positions(length);
  for (std::size_t i = 0; i < length; ++i) positions[i] = i;
  return positions;
}

AttentionShape shape_of(std::size_t heads, std::size_t kv_heads, std::size_t dim,
                        std::size_t window = 0, float softcap = 0) {
  return {heads,   kv_heads, dim, static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))),
          softcap, window};
}

struct Case {
  const char* name;
  AttentionShape shape;
};

class Attention : public testing::TestWithParam<Case> {};

TEST_P(Attention, EveryBackendComputesTheProfilesText) {
  const std::size_t length = 600;
  for (const Kind kind : kKinds) {
    const Sequence s(GetParam().shape, length, 5, kind);
    const std::vector<std::size_t> positions = {0,   1,   7,   100, 254, 255,
                                                256, 257, 511, 512, 513, 599};
    std::vector<float> expected;
    for (const std::size_t p : positions) {
      for (std::size_t h = 0; h < s.shape.heads; ++h) {
        const std::vector<float> head = profile_attention(s, p, h);
        expected.insert(expected.end(), head.begin(), head.end());
      }
    }
    for (const Backend backend : supported_backends()) {
      ASSERT_TRUE(same_bits(run(backend, s, positions).values, expected))
          << name(backend) << " " << text(kind);
    }
  }
}

TEST_P(Attention, PrefillDecodeAndEveryChunkingAgree) {
  const std::size_t length = 530;
  const Sequence s(GetParam().shape, length, 17);
  const std::vector<std::size_t> positions = all_positions(length);
  const std::vector<float> reference = run(Backend::scalar, s, positions).values;
  for (const Backend backend : supported_backends()) {
    ASSERT_TRUE(same_bits(run(backend, s, positions).values, reference)) << name(backend);
    for (const std::size_t chunk : {1, 2, 3, 5, 64, 255, 256, 257}) {
      for (std::size_t at = 0; at < length; at += chunk) {
        const std::size_t n = std::min(chunk, length - at);
        const std::vector<std::size_t> part(
            positions.begin() + static_cast<std::ptrdiff_t>(at),
            positions.begin() + static_cast<std::ptrdiff_t>(at + n));
        ASSERT_TRUE(same_bits(run(backend, s, part).values,
                              std::span(reference).subspan(at * s.width(), n * s.width())))
            << name(backend) << ", chunk " << chunk << " at " << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Case{"multi_head", shape_of(3, 3, 8)},
                                         Case{"grouped", shape_of(4, 2, 64)},
                                         Case{"one_kv_head_of_six", shape_of(6, 1, 16)},
                                         Case{"ragged_dim", shape_of(2, 1, 23)},
                                         Case{"tiny_dim", shape_of(2, 2, 3)},
                                         Case{"wide", shape_of(5, 1, 128)},
                                         Case{"deeper_than_a_block", shape_of(1, 1, 300)},
                                         Case{"window", shape_of(4, 2, 16, 100)},
                                         Case{"window_of_1", shape_of(2, 1, 16, 1)},
                                         Case{"window_of_a_block", shape_of(4, 4, 24, 256)},
                                         Case{"window_and_softcap", shape_of(4, 1, 40, 300, 5.0f)},
                                         Case{"softcap", shape_of(4, 2, 32, 0, 2.0f)}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(AttentionRows, RowsOfSeveralSequencesDoNotTouchEachOther) {
  const AttentionShape shape = shape_of(4, 2, 32);
  const Sequence a(shape, 400, 1), b(shape, 300, 2);
  for (const Backend backend : supported_backends()) {
    std::vector<float> out(6 * a.width());
    std::vector<AttentionRow> rows;
    const std::pair<const Sequence*, std::size_t> wanted[] = {{&a, 399}, {&b, 5},   {&a, 0},
                                                              {&a, 1},   {&b, 299}, {&b, 298}};
    for (const auto& [s, p] : wanted) {
      rows.push_back({s->q.data() + p * s->width(), out.data() + rows.size() * s->width(), p,
                      s->pages.data(), false});
    }
    attention(backend, shape, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Output alone = run(backend, *wanted[i].first, {wanted[i].second});
      EXPECT_TRUE(same_bits(std::span(out).subspan(i * a.width(), a.width()), alone.values)) << i;
    }
  }
}

TEST(AttentionRows, SharedPrefixPagesGiveTheSameBits) {
  const AttentionShape shape = shape_of(4, 2, 32);
  const Sequence original(shape, 600, 3);
  Sequence sharing(shape, 600, 3);
  sharing.pages[0] = original.pages[0];
  sharing.pages[1] = original.pages[1];
  for (const Backend backend : supported_backends()) {
    EXPECT_TRUE(
        same_bits(run(backend, sharing, {599}).values, run(backend, original, {599}).values));
  }
}

TEST(AttentionRows, PagesWhollyBeforeTheWindowAreNotTouched) {
  Sequence s(shape_of(2, 1, 16, 200), 1000, 4);
  const std::vector<float> before = run(Backend::scalar, s, {999}).values;
  s.pages[0] = s.pages[1] = s.pages[2] = KvPage{};  // 999 - 200 + 1 = 800: page 3
  for (const Backend backend : supported_backends()) {
    EXPECT_TRUE(same_bits(run(backend, s, {999}).values, before)) << name(backend);
  }
}

TEST(AttentionRows, ThreadsChangeNoBit) {
  const Sequence s(shape_of(6, 2, 40), 300, 6);
  const std::vector<float> alone = run(Backend::scalar, s, all_positions(300)).values;
  for (const Backend backend : supported_backends()) {
    for (const int threads : {1, 2, 3, 7}) {
      ThreadPool pool(threads);
      EXPECT_TRUE(same_bits(run(backend, s, all_positions(300), &pool).values, alone)) << threads;
    }
  }
}

TEST(AttentionRows, AnInfiniteMaximumIsReportedForThatRowOnly) {
  Sequence s(shape_of(2, 1, 8), 20, 7);
  // Position 10's key makes every score of later queries infinite.
  constexpr std::ptrdiff_t tenth = 10 * 8;
  std::fill_n(s.k.begin() + tenth, 8, 0x1.fp127f);
  std::fill(s.q.begin(), s.q.end(), 2.0f);
  kv_store(s.shape, s.pages[0], 10, s.k.data() + tenth, s.v.data() + tenth);
  for (const Backend backend : supported_backends()) {
    const Output output = run(backend, s, {8, 9, 10, 11, 3});
    EXPECT_EQ(output.range, (std::vector<bool>{false, false, true, true, false})) << name(backend);
  }
}

TEST(AttentionRows, TheErrorAgainstF64IsBounded) {
  const Sequence s(shape_of(2, 1, 64), 1500, 8);
  const std::vector<float> y = run(best_backend(), s, {1499}).values;
  double worst = 0;
  for (std::size_t h = 0; h < 2; ++h) {
    std::vector<double> score(1500);
    double m = -1e300, l = 0;
    for (std::size_t j = 0; j < 1500; ++j) {
      for (std::size_t i = 0; i < 64; ++i) {
        score[j] += static_cast<double>(s.q[std::size_t{1499} * 128 + h * 64 + i]) *
                    static_cast<double>(s.k[j * 64 + i]);
      }
      score[j] *= static_cast<double>(s.shape.scale);
      m = std::max(m, score[j]);
    }
    for (double& x : score) l += x = std::exp(x - m);
    for (std::size_t i = 0; i < 64; ++i) {
      double o = 0;
      for (std::size_t j = 0; j < 1500; ++j) o += score[j] * static_cast<double>(s.v[j * 64 + i]);
      worst = std::max(worst, std::fabs(static_cast<double>(y[h * 64 + i]) - o / l));
    }
  }
  EXPECT_LT(worst, 1e-5);  // values up to 1; about 300 roundings of 2^-24 each
  EXPECT_GT(worst, 0);
}

}  // namespace
}  // namespace verbatim::kernels::test
