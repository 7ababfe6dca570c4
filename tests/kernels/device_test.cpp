// The GPU operators' text against the CPU backends, by bits. Built twice: for the CPU, where every index is run in turn
// (no GPU needed), and with VERBATIM_ON_GPU as real kernels (label gpu), skipped where there is no device.

#include "kernels/attention/attention.hpp"
#include "kernels/attention/attention_element.hpp"
#include "kernels/elementary/elementary.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/elementwise/elementwise_element.hpp"
#include "kernels/gate/gate.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/matmul/matmul_element.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"
#include "kernels/rmsnorm/rmsnorm_element.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/rope/rope_element.hpp"
#include "support.hpp"

#ifdef VERBATIM_ON_GPU
#include "kernels/cuda/operators.hpp"
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace verbatim::kernels::test {
namespace {

/// Memory that the operators can reach; freed with the test.
class DeviceMemory {
 public:
  ~DeviceMemory() {
    for (void* p : blocks_) release(p);
  }

  template <class T>
  T* upload(const T* from, std::size_t count) {
    T* to = static_cast<T*>(allocate(count * sizeof(T)));
    copy(to, from, count * sizeof(T), true);
    return to;
  }
  template <class T>
  T* upload(const std::vector<T>& from) {
    return upload(from.data(), from.size());
  }
  template <class T>
  std::vector<T> download(const T* from, std::size_t count) {
    std::vector<T> to(count);
    copy(to.data(), from, count * sizeof(T), false);
    return to;
  }

 private:
#ifdef VERBATIM_ON_GPU
  void* allocate(std::size_t bytes) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, std::max<std::size_t>(bytes, 1)), cudaSuccess);
    blocks_.push_back(p);
    return p;
  }
  static void copy(void* to, const void* from, std::size_t bytes, bool up) {
    EXPECT_EQ(cudaMemcpy(to, from, bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost),
              cudaSuccess);
  }
  static void release(void* p) { cudaFree(p); }
#else
  void* allocate(std::size_t bytes) {
    blocks_.push_back(std::malloc(std::max<std::size_t>(bytes, 1)));
    return blocks_.back();
  }
  static void copy(void* to, const void* from, std::size_t bytes, bool) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  static void release(void* p) { std::free(p); }
#endif
  std::vector<void*> blocks_;
};

#ifdef VERBATIM_ON_GPU
void launch(const cuda::MatmulArgs& a) { cuda::matmul(a, nullptr); }
void launch(const cuda::RmsnormArgs& a) { cuda::rmsnorm(a, nullptr); }
void launch(const cuda::RopeArgs& a) { cuda::rope_rotate(a, nullptr); }
void launch(const cuda::AttentionArgs& a) { cuda::attention(a, nullptr); }
void launch(std::size_t n, const element::Swiglu& e) {
  cuda::swiglu(e.gate, e.up, n, e.out, nullptr);
}
void launch(std::size_t n, const element::Geglu& e) {
  cuda::geglu(e.gate, e.up, n, e.out, nullptr);
}
void launch(std::size_t n, const element::Add& e) { cuda::add_in_place(e.x, e.branch, n, nullptr); }
void launch(std::size_t n, const element::Scale& e) {
  cuda::scale_in_place(e.x, e.factor, n, nullptr);
}
void launch(std::size_t n, const element::Softcap& e) {
  cuda::softcap_in_place(e.x, e.cap, n, nullptr);
}
void launch(std::size_t n, const element::Fma& e) {
  cuda::fma_in_place(e.acc, e.weight, e.y, n, nullptr);
}
#else
template <class Element>
void launch(std::size_t count, const Element& element) {
  // Backwards: no index may rely on another of its launch.
  for (std::size_t i = count; i-- > 0;) element(i);
}
void launch(const cuda::MatmulArgs& a) { launch(a.m * a.rows, element::Matmul{a}); }
void launch(const cuda::RmsnormArgs& a) {
  launch(a.rows * element::blocks_of(a), element::RmsnormBlock{a});
  launch(a.rows, element::RmsnormRow{a});
  launch(a.rows * a.cols, element::RmsnormElement{a});
}
void launch(const cuda::RopeArgs& a) { launch(a.rows * a.heads * a.pairs, element::RopePair{a}); }
void launch(const cuda::AttentionArgs& a) {
  const std::size_t pages = a.row_count * a.heads * a.pages_max;
  launch(pages * 256, element::AttentionScore{a});
  launch(pages, element::AttentionPage{a});
  launch(pages * a.head_dim, element::AttentionValue{a});
  launch(a.row_count * a.heads * a.head_dim, element::AttentionMerge{a});
}
#endif

class Device : public testing::Test {
 protected:
  void SetUp() override {
#ifdef VERBATIM_ON_GPU
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "SKIPPED: no CUDA device: the kernels' bits on a GPU were not compared";
    }
#endif
  }
  DeviceMemory memory_;
};

TEST_F(Device, MatrixProductsHaveTheCpusBits) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const Kind kind : kKinds) {
      for (const std::size_t k : {15, 256, 513}) {
        const std::size_t n = 37, m = 5;
        std::vector<float> values = random_floats(n * k, k, kind);
        std::vector<std::uint16_t> half(values.size());
        for (std::size_t i = 0; i < half.size(); ++i) {
          half[i] = dtype == Dtype::bf16 ? f32_to_bf16(values[i]) : f32_to_f16(values[i]);
        }
        const void* stored =
            dtype == Dtype::f32 ? static_cast<const void*>(values.data()) : half.data();
        const PackedWeights w({stored, dtype, n, k});
        const std::vector<float> x = random_floats(m * k, k + 1, kind);
        const std::vector<float> bias = random_floats(n, k + 2, kind);
        std::vector<float> expected(m * n);
        matmul(best_backend(), w, {x.data(), m, k, bias.data(), expected.data(), n});

        float* y = memory_.upload(std::vector<float>(m * n));
        launch({memory_.upload(static_cast<const std::byte*>(w.data()), w.bytes()), dtype, n, k,
                memory_.upload(x), m, k, memory_.upload(bias), y, n});
        EXPECT_TRUE(same_bits(memory_.download(y, m * n), expected)) << text(kind) << " " << k;
      }
    }
  }
}

TEST_F(Device, RmsnormHasTheCpusBits) {
  for (const Kind kind : kKinds) {
    for (const std::size_t cols : {1, 255, 256, 1000}) {
      for (const bool gemma : {false, true}) {
        const std::size_t rows = 3;
        const std::vector<float> x = random_floats(rows * cols, cols, kind);
        const std::vector<float> w = random_floats(cols, cols + 1, kind);
        std::vector<float> expected(rows * cols);
        rmsnorm(best_backend(),
                {rows, cols, 1e-6f, gemma, x.data(), cols, w.data(), expected.data(), cols});
        float* y = memory_.upload(x);
        float* scratch = memory_.upload(std::vector<float>(rows * (cols / 256 + 2)));
        launch(cuda::RmsnormArgs{rows, cols, 1e-6f, gemma, y, cols, memory_.upload(w), y, cols,
                                 scratch});
        EXPECT_TRUE(same_bits(memory_.download(y, rows * cols), expected))
            << text(kind) << " " << cols;
      }
    }
  }
}

TEST_F(Device, RotationHasTheCpusBits) {
  const std::size_t rows = 4, heads = 3, dim = 20, pairs = 8;
  const RopeTable table =
      RopeTable::make(rope_inverse_frequencies(10000, 2 * pairs).value(), 50).value();
  const std::vector<std::size_t> positions = {0, 49, 7, 8};
  const float* cos = memory_.upload(table.cos(0), 50 * pairs);
  const float* sin = memory_.upload(table.sin(0), 50 * pairs);
  for (const Kind kind : kKinds) {
    for (const bool interleaved : {false, true}) {
      std::vector<float> x = random_floats(rows * heads * dim, 1, kind);
      float* y = memory_.upload(x);
      launch(cuda::RopeArgs{rows, heads, dim, pairs, interleaved, memory_.upload(positions), cos,
                            sin, y, heads * dim});
      rope_rotate(
          best_backend(), table,
          {rows, heads, dim, interleaved ? RopePairing::interleaved : RopePairing::half_split,
           positions.data(), x.data(), heads * dim});
      EXPECT_TRUE(same_bits(memory_.download(y, x.size()), x)) << text(kind);
    }
  }
}

TEST_F(Device, GatesAndElementwiseOperatorsHaveTheCpusBits) {
  for (const Kind kind : kKinds) {
    std::vector<float> x = random_floats(20'000, 1, kind);
    for (std::size_t i = 0; i < x.size() / 2; ++i) x[i] *= 10;
    const std::vector<float> y = random_floats(x.size(), 2, kind);
    const std::size_t n = x.size();
    const Backend backend = best_backend();
    const auto compare = [&](auto device, auto host, const char* what) {
      float* at = memory_.upload(x);
      device(at, memory_.upload(y));
      std::vector<float> expected = x;
      host(expected.data());
      EXPECT_TRUE(same_bits(memory_.download(at, n), expected)) << what << " " << text(kind);
    };
    compare(
        [&](float* a, const float* b) {
          launch(n, element::Swiglu{a, b, a});
        },
        [&](float* a) { swiglu(backend, a, y.data(), n, a); }, "swiglu");
    compare(
        [&](float* a, const float* b) {
          launch(n, element::Geglu{a, b, a});
        },
        [&](float* a) { geglu(backend, a, y.data(), n, a); }, "geglu");
    compare(
        [&](float* a, const float* b) {
          launch(n, element::Add{a, b});
        },
        [&](float* a) { add_in_place(backend, a, y.data(), n); }, "add");
    compare(
        [&](float* a, const float*) {
          launch(n, element::Scale{a, 1.7f});
        },
        [&](float* a) { scale_in_place(backend, a, 1.7f, n); }, "scale");
    compare(
        [&](float* a, const float*) {
          launch(n, element::Softcap{a, 30.0f});
        },
        [&](float* a) { softcap_in_place(backend, a, 30.0f, n); }, "softcap");
    compare(
        [&](float* a, const float* b) {
          launch(n, element::Fma{a, 0.3f, b});
        },
        [&](float* a) { fma_in_place(backend, a, 0.3f, y.data(), n); }, "fma");
  }
}

TEST_F(Device, AttentionHasTheCpusBits) {
  for (const std::size_t window : {0, 1, 100, 256}) {
    for (const float softcap : {0.0f, 3.0f}) {
      for (const std::size_t dim : {8, 300}) {
        const AttentionShape shape{4, 2, dim, 0.3f, softcap, window};
        const std::size_t width = 4 * dim, size = kv_page_floats(2, dim), pages_max = 3;
        std::vector<KvPage> pages(pages_max);
        std::vector<cuda::KvPage> device_pages;
        std::vector<std::vector<float>> storage;
        for (std::size_t p = 0; p < pages_max; ++p) {
          for (int part = 0; part < 2; ++part)
            storage.push_back(random_floats(size, storage.size()));
          device_pages.push_back(
              {memory_.upload(storage[2 * p]), memory_.upload(storage[2 * p + 1])});
        }
        for (std::size_t p = 0; p < pages_max; ++p)
          pages[p] = {storage[2 * p].data(), storage[2 * p + 1].data()};
        const cuda::KvPage* table = memory_.upload(device_pages);

        const std::vector<std::size_t> positions = {0, 255, 256, 700, 31};
        const std::vector<float> q = random_floats(positions.size() * width, 99);
        std::vector<float> expected(q.size());
        float* out = memory_.upload(expected);
        const float* device_q = memory_.upload(q);
        std::vector<AttentionRow> rows;
        std::vector<cuda::AttentionRow> device_rows;
        for (std::size_t r = 0; r < positions.size(); ++r) {
          rows.push_back({q.data() + r * width, expected.data() + r * width, positions[r],
                          pages.data(), false});
          device_rows.push_back({device_q + r * width, out + r * width, positions[r], table});
        }
        attention(best_backend(), shape, rows);

        cuda::AttentionArgs args{4,         2,       dim,         0.3f,
                                 softcap,   window,  rows.size(), memory_.upload(device_rows),
                                 pages_max, nullptr, nullptr};
        args.scratch = memory_.upload(std::vector<float>(cuda::attention_scratch_floats(args)));
        const bool no[5] = {};
        args.range = memory_.upload(no, 5);
        launch(args);
        EXPECT_TRUE(same_bits(memory_.download(out, q.size()), expected))
            << window << " " << softcap << " " << dim;
        EXPECT_EQ(memory_.download(reinterpret_cast<const std::uint8_t*>(args.range), 5),
                  std::vector<std::uint8_t>(5));
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
