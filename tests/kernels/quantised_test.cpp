// Quantised weights: the value of every element against an independent decoder, and products whose bits are those of the
// decoded values.

#include "kernels/quantised/quantised.hpp"

#include "kernels/matmul/matmul.hpp"
#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"
#include "support.hpp"

#include <fstream>
#include <string>

namespace verbatim::kernels::test {
namespace {

struct Format {
  std::string name;
  Dtype dtype;
};
const Format kFormats[] = {{"Q8_0", Dtype::q8_0}, {"Q4_0", Dtype::q4_0}, {"Q4_1", Dtype::q4_1},
                           {"Q5_0", Dtype::q5_0}, {"Q5_1", Dtype::q5_1}, {"Q4_K", Dtype::q4_k},
                           {"Q5_K", Dtype::q5_k}, {"Q6_K", Dtype::q6_k}};

class Quantised : public testing::TestWithParam<Format> {
 protected:
  Dtype dtype() const { return GetParam().dtype; }
  BlockLayout layout() const { return block_layout(dtype()); }

  /// (rows, cols) of any bytes, but for finite f16 scales: of size 2^-8 to 2^-3, or, `wild`, anything finite.
  std::vector<std::byte> random_rows(std::size_t rows, std::size_t cols, std::uint64_t seed,
                                     bool wild = false) const {
    Random random(seed);
    const std::size_t blocks = rows * cols / layout().elements;
    std::vector<std::byte> data(blocks * layout().bytes);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random.below(256));
    const auto set_half = [&](std::size_t at) {
      auto half = static_cast<std::uint16_t>(random.next());
      if (!wild) half = static_cast<std::uint16_t>((half & 0x83ffu) | (7u + random.below(5)) << 10);
      if ((half & 0x7c00u) == 0x7c00u) half = static_cast<std::uint16_t>(half & 0xbfffu);
      std::memcpy(data.data() + at, &half, 2);
    };
    const bool two = dtype() == Dtype::q4_1 || dtype() == Dtype::q5_1 || dtype() == Dtype::q4_k ||
                     dtype() == Dtype::q5_k;
    for (std::size_t b = 0; b < blocks; ++b) {
      set_half(b * layout().bytes + (dtype() == Dtype::q6_k ? 208 : 0));
      if (two) set_half(b * layout().bytes + 2);
    }
    return data;
  }
  std::vector<float> decoded(const std::vector<std::byte>& data) const {
    std::vector<float> values(data.size() / layout().bytes * layout().elements);
    to_f32(data.data(), dtype(), values.size(), values.data());
    return values;
  }
};

TEST_P(Quantised, ElementsAreThoseOfTheIndependentDecoder) {
  std::ifstream in(std::string(VERBATIM_SOURCE_DIR) + "/tests/kernels/quantised_vectors.jsonl");
  std::size_t blocks = 0;
  for (std::string line; std::getline(in, line);) {
    const Json json = parse_json(line).value();
    if (json.at("format") != GetParam().name) continue;
    const auto bytes = from_hex(json.at("bytes").get<std::string>()).value();
    const auto expected = from_hex(json.at("values").get<std::string>()).value();
    ASSERT_EQ(bytes.size(), layout().bytes);
    std::vector<float> values(layout().elements);
    ASSERT_EQ(expected.size(), values.size() * sizeof(float));
    to_f32(bytes.data(), dtype(), values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, expected.data() + i * sizeof bits, sizeof bits);
      ASSERT_EQ(bits_of(values[i]), bits) << "block " << blocks << ", element " << i;
    }
    // Every backend: the product with the unit vectors is the element itself, but for the sign of a zero.
    const PackedWeights w({bytes.data(), dtype(), 1, layout().elements});
    std::vector<float> unit(layout().elements);
    for (std::size_t i = 0; i < values.size(); ++i) {
      unit[i] = 1;
      for (const Backend backend : supported_backends()) {
        float y = 99;
        matmul(backend, w, {unit.data(), 1, unit.size(), nullptr, &y, 1});
        ASSERT_TRUE(same_bits(y, values[i] + 0.0f)) << name(backend) << ", element " << i;
      }
      unit[i] = 0;
    }
    ++blocks;
  }
  EXPECT_GE(blocks, 5u);
}

TEST_P(Quantised, ProductsAreThoseOfTheDecodedFloatsAtEveryShape) {
  for (const std::size_t cols : {std::size_t{256}, std::size_t{768}}) {
    for (const std::size_t rows : {1, 15, 16, 17, 40, 129}) {
      const auto data = random_rows(rows, cols, rows + cols);
      const auto values = decoded(data);
      const PackedWeights quantised({data.data(), dtype(), rows, cols});
      const PackedWeights floats({values.data(), Dtype::f32, rows, cols});
      const auto x = random_floats(30 * cols, cols, Kind::adversarial);
      const auto bias = random_floats(rows, 3);
      for (const std::size_t m : {1, 2, 3, 6, 7, 12, 13, 30}) {
        std::vector<float> expected(m * rows);
        matmul(Backend::scalar, floats, {x.data(), m, cols, bias.data(), expected.data(), rows});
        for (const Backend backend : supported_backends()) {
          std::vector<float> y(m * rows, 99.0f);
          matmul(backend, quantised, {x.data(), m, cols, bias.data(), y.data(), rows});
          ASSERT_TRUE(same_bits(y, expected)) << name(backend) << " " << m << "x" << rows;
        }
      }
    }
  }
}

TEST_P(Quantised, AnyFiniteScaleGivesTheSameBitsOnEveryBackend) {
  const std::size_t rows = 48, cols = 512, m = 3;
  const auto data = random_rows(rows, cols, 77, true);
  const PackedWeights w({data.data(), dtype(), rows, cols});
  const PackedWeights floats({decoded(data).data(), Dtype::f32, rows, cols});
  const auto x = random_floats(m * cols, 78, Kind::overflowing);
  std::vector<float> expected(m * rows);
  matmul(Backend::scalar, floats, {x.data(), m, cols, nullptr, expected.data(), rows});
  for (const Backend backend : supported_backends()) {
    std::vector<float> y(m * rows);
    matmul(backend, w, {x.data(), m, cols, nullptr, y.data(), rows});
    EXPECT_TRUE(same_bits(y, expected)) << name(backend);
  }
}

TEST_P(Quantised, RowsOfAnyNumberOfBlocksAreDecoded) {
  for (std::size_t blocks = 1; blocks <= 10; ++blocks) {
    const std::size_t cols = blocks * layout().elements;
    const auto data = random_rows(20, cols, cols);
    const PackedWeights quantised({data.data(), dtype(), 20, cols});
    const PackedWeights floats({decoded(data).data(), Dtype::f32, 20, cols});
    const auto x = random_floats(14 * cols, cols);
    for (const std::size_t m : {1, 14}) {
      std::vector<float> expected(m * 20), y(m * 20);
      matmul(Backend::scalar, floats, {x.data(), m, cols, nullptr, expected.data(), 20});
      for (const Backend backend : supported_backends()) {
        matmul(backend, quantised, {x.data(), m, cols, nullptr, y.data(), 20});
        ASSERT_TRUE(same_bits(y, expected)) << name(backend) << " " << cols;
      }
    }
  }
}

TEST_P(Quantised, ThreadsAndTheOrderOfRowsInTheFileChangeNoBit) {
  const std::size_t rows = 333, cols = 512, m = 5;
  const auto data = random_rows(rows, cols, 5);
  const auto values = decoded(data);
  const auto x = random_floats(m * cols, 6);
  // Rows from the last to the first, as a permuted file would have them.
  std::vector<const std::byte*> turned;
  for (std::size_t n = rows; n-- > 0;) turned.push_back(data.data() + n * row_bytes(dtype(), cols));
  const PackedWeights w(turned, dtype(), cols);
  EXPECT_EQ(w.data(), nullptr);
  EXPECT_EQ(w.bytes(), 0u);
  EXPECT_EQ(w.row_data()[0], turned[0]) << "quantised rows are not copied";
  std::vector<float> straight(m * rows);
  const PackedWeights floats({values.data(), Dtype::f32, rows, cols});
  matmul(Backend::scalar, floats, {x.data(), m, cols, nullptr, straight.data(), rows});
  for (const Backend backend : supported_backends()) {
    for (const int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      std::vector<float> y(m * rows);
      matmul(backend, w, {x.data(), m, cols, nullptr, y.data(), rows}, &pool);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_TRUE(same_bits(y[i], straight[i / rows * rows + rows - 1 - i % rows])) << i;
      }
    }
  }
  std::vector<float> row(cols);
  w.unpack_row(3, row.data());
  EXPECT_TRUE(same_bits(row, std::span(values).subspan((rows - 4) * cols, cols)));
}

INSTANTIATE_TEST_SUITE_P(Formats, Quantised, testing::ValuesIn(kFormats),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace verbatim::kernels::test
