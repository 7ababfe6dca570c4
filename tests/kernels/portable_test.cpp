// The scalar backend as a processor without FMA runs it, where fma is a call of the C library: the same bits.

#include "kernels/attention/detail.hpp"
#include "kernels/elementary/detail.hpp"
#include "kernels/elementary/elementary.hpp"
#include "kernels/matmul/detail.hpp"
#include "kernels/matmul/matmul.hpp"
#include "support.hpp"

namespace verbatim::kernels::test {
namespace {

TEST(Portable, ElementaryFunctionsHaveTheSameBits) {
  using detail::Function;
  Random random(1);
  std::vector<float> x(20'000);
  for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
  for (std::size_t i = 0; i < x.size() / 2; ++i) x[i] = random.unit() * 20;
  for (const Function f :
       {Function::exp, Function::log, Function::tanh, Function::silu, Function::gelu_tanh}) {
    std::vector<float> usual(x.size()), portable(x.size());
    detail::apply_scalar(f, x.data(), x.size(), usual.data());
    detail::apply_portable(f, x.data(), x.size(), portable.data());
    EXPECT_TRUE(same_bits(portable, usual)) << static_cast<int>(f);
  }
}

TEST(Portable, MatrixProductsHaveTheSameBits) {
  const std::size_t n = 20, k = 600, m = 3;
  for (const Kind kind : kKinds) {
    const std::vector<float> stored = random_floats(n * k, 1, kind);
    const std::vector<float> x = random_floats(m * k, 2, kind);
    const PackedWeights w({stored.data(), Dtype::f32, n, k});
    std::vector<float> usual(m * n), portable(m * n);
    detail::PanelRange range{w.data(), nullptr,    Dtype::f32,   n,       k,
                             0,        w.panels(), x.data(),     nullptr, m,
                             k,        nullptr,    usual.data(), n};
    detail::matmul_scalar(range);
    range.y = portable.data();
    detail::matmul_portable(range);
    EXPECT_TRUE(same_bits(portable, usual)) << text(kind);
  }
}

TEST(Portable, AttentionHasTheSameBits) {
  const AttentionShape shape{1, 1, 40, 0.2f, 0, 0};
  const std::size_t size = kv_page_floats(1, 40);
  std::vector<float> k = random_floats(2 * size, 1), v = random_floats(2 * size, 2);
  const KvPage pages[] = {{k.data(), v.data()}, {k.data() + size, v.data() + size}};
  const std::vector<float> q = random_floats(40, 3);
  std::vector<float> scratch(detail::scratch_floats(40)), usual(40), portable(40);
  detail::Query query{q.data(), usual.data(), 400, false, 0, 0};
  detail::attention_scalar({&shape, pages, 0, &query, 1, scratch.data()});
  query.out = portable.data();
  detail::attention_portable({&shape, pages, 0, &query, 1, scratch.data()});
  EXPECT_TRUE(same_bits(portable, usual));
}

}  // namespace
}  // namespace verbatim::kernels::test
