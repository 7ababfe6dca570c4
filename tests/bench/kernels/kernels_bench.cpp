// Speed of the CPU kernels, each backend: GFLOP/s of matrix products, and where it is installed OpenBLAS beside them in
// the same run; tokens of attention; elements of the elementary functions. Bits are compared before anything is timed.

#include "kernels/attention/attention.hpp"
#include "kernels/elementary/elementary.hpp"
#include "kernels/logits/logits.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/mma/mma.hpp"
#include "kernels/sampling/sampling.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#ifdef VERBATIM_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace {

using namespace verbatim::kernels;

constexpr std::size_t kWidth = 2048;  // K and N

std::vector<float> numbers(std::size_t count) {
  std::vector<float> x(count);
  std::uint32_t state = 1;
  for (float& value : x) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return x;
}

/// Quantised rows are read where they lie, so they stay here.
struct Weights {
  std::vector<std::byte> bytes;
  PackedWeights packed;
};

std::shared_ptr<Weights> weights(Dtype dtype) {
  auto w = std::make_shared<Weights>();
  // Any bytes will do for blocks, but for scales of 0x2c2c: f16 numbers of ordinary size.
  w->bytes.assign(row_bytes(dtype, kWidth) * kWidth, std::byte{0x2c});
  if (!is_quantised(dtype)) {
    const std::vector<float> values = numbers(kWidth * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = f32_to_bf16(values[i]);
      std::memcpy(w->bytes.data() + i * row_bytes(dtype, 1),
                  dtype == Dtype::f32 ? static_cast<const void*>(&values[i]) : &half,
                  row_bytes(dtype, 1));
    }
  }
  w->packed = PackedWeights({w->bytes.data(), dtype, kWidth, kWidth});
  return w;
}

void set_rate(benchmark::State& state, double operations) {
  state.counters["GFLOP/s"] = benchmark::Counter(
      operations * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}

void matmul_speed(benchmark::State& state, Backend backend, const PackedWeights& w, std::size_t m,
                  ThreadPool* pool, decltype(matmul)* product = &matmul) {
  const std::vector<float> x = numbers(m * kWidth);
  std::vector<float> y(m * kWidth), reference(kWidth);
  product(Backend::scalar, w, {x.data(), 1, kWidth, nullptr, reference.data(), kWidth}, nullptr);
  for (auto _ : state) {
    product(backend, w, {x.data(), m, kWidth, nullptr, y.data(), kWidth}, pool);
    benchmark::DoNotOptimize(y.data());
  }
  if (!std::ranges::equal(std::as_bytes(std::span(y).first(kWidth)),
                          std::as_bytes(std::span(reference))))
    state.SkipWithError("the bits differ");
  set_rate(state, 2.0 * static_cast<double>(m) * kWidth * kWidth);
}

#ifdef VERBATIM_HAVE_OPENBLAS
void openblas_speed(benchmark::State& state, std::size_t m, int threads) {
  openblas_set_num_threads(threads);
  const std::vector<float> w = numbers(kWidth * kWidth);
  const std::vector<float> x = numbers(m * kWidth);
  std::vector<float> y(m * kWidth);
  constexpr auto n = static_cast<int>(kWidth);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), n, n, 1, x.data(), n,
                w.data(), n, 0, y.data(), n);
    benchmark::DoNotOptimize(y.data());
  }
  set_rate(state, 2.0 * static_cast<double>(m) * kWidth * kWidth);
}
#endif

/// One row against weights that no cache holds: the speed of reading them. GB/s.
void streamed_speed(benchmark::State& state, Dtype dtype, ThreadPool* pool) {
  constexpr std::size_t kRows = 65'536;
  const std::vector<std::byte> stored(row_bytes(dtype, kWidth) * kRows);
  const PackedWeights w({stored.data(), dtype, kRows, kWidth});
  const std::vector<float> x = numbers(kWidth);
  std::vector<float> y(kRows);
  for (auto _ : state) {
    matmul(best_backend(), w, {x.data(), 1, kWidth, nullptr, y.data(), kRows}, pool);
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(stored.size()) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}

/// What the memory itself gives: the sum of as many bytes, by 64-bit additions.
void read_speed(benchmark::State& state) {
  const std::vector<std::uint64_t> memory(std::size_t{1} << 25, 1);
  for (auto _ : state) {
    std::uint64_t sums[16] = {};
    for (std::size_t i = 0; i < memory.size(); i += 16) {
      for (std::size_t j = 0; j < 16; ++j) sums[j] += memory[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.counters["GB/s"] = benchmark::Counter(
      8 * static_cast<double>(memory.size()) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}

void elementary_speed(benchmark::State& state, Backend backend,
                      void (*function)(Backend, const float*, std::size_t, float*), float low,
                      float high) {
  std::vector<float> x = numbers(4096);
  for (float& value : x) value = low + (value + 1) / 2 * (high - low);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    function(backend, x.data(), x.size(), y.data());
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(x.size()));
}

/// `rows` queries at the end of `length` positions: 32 heads of 64 over 8 of keys.
void attention_speed(benchmark::State& state, Backend backend, std::size_t rows,
                     std::size_t length) {
  const AttentionShape shape{32, 8, 64, 0.125f, 0, 0};
  const std::size_t size = kv_page_floats(shape.kv_heads, shape.head_dim);
  const std::vector<float> memory = numbers(2 * size * (length / kBlock));
  std::vector<float> copy = memory;
  std::vector<KvPage> pages;
  for (std::size_t b = 0; b < length / kBlock; ++b) {
    pages.push_back({copy.data() + 2 * b * size, copy.data() + (2 * b + 1) * size});
  }
  const std::vector<float> q = numbers(rows * 2048);
  std::vector<float> out(rows * 2048);
  std::vector<AttentionRow> batch;
  for (std::size_t r = 0; r < rows; ++r) {
    batch.push_back(
        {q.data() + r * 2048, out.data() + r * 2048, length - rows + r, pages.data(), false});
  }
  for (auto _ : state) {
    attention(backend, shape, batch);
    benchmark::DoNotOptimize(out.data());
  }
  set_rate(state, 4.0 * 2048 * static_cast<double>(rows) * static_cast<double>(length));
}

void sampling_speed(benchmark::State& state, Backend backend, double temperature, double top_p) {
  std::vector<float> logits = numbers(128'256);
  for (float& x : logits) x = 8 * x * x * x;
  SamplerParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  for (auto _ : state) {
    benchmark::DoNotOptimize(choose_token(backend, logits, params));
    ++params.position;
  }
  state.SetItemsProcessed(state.iterations());
}

void row_statistics_speed(benchmark::State& state, Backend backend) {
  const std::vector<float> logits = numbers(128'256);
  for (auto _ : state) {
    benchmark::DoNotOptimize(log_sum_exp(backend, logits));
    benchmark::DoNotOptimize(top2(backend, logits));
    benchmark::DoNotOptimize(row_digest(logits));
  }
  state.SetItemsProcessed(state.iterations());
}

void add_matmuls(ThreadPool& pool) {
  const std::pair<Dtype, std::string> types[] = {{Dtype::f32, "f32"},   {Dtype::bf16, "bf16"},
                                                 {Dtype::q8_0, "q8_0"}, {Dtype::q4_0, "q4_0"},
                                                 {Dtype::q4_k, "q4_k"}, {Dtype::q6_k, "q6_k"}};
  for (const auto& [dtype, type] : types) {
    const auto w = weights(dtype);
    for (const std::size_t m : {1, 8, 64, 256}) {
      const std::string size = type + "/m:" + std::to_string(m);
      for (const Backend backend : supported_backends()) {
        const std::string label = "matmul/" + std::string(name(backend)) + "/" + size;
        benchmark::RegisterBenchmark(label.c_str(), [=](benchmark::State& state) {
          matmul_speed(state, backend, w->packed, m, nullptr);
        })->UseRealTime();
        if (backend != best_backend()) continue;
        benchmark::RegisterBenchmark((label + "/all_threads").c_str(),
                                     [=, &pool](benchmark::State& state) {
                                       matmul_speed(state, backend, w->packed, m, &pool);
                                     })
            ->UseRealTime();
      }
#ifdef VERBATIM_HAVE_OPENBLAS
      if (dtype != Dtype::f32) continue;
      for (const int threads : {1, pool.threads()}) {
        const std::string label = "openblas/" + size + "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(label.c_str(), [=](benchmark::State& state) {
          openblas_speed(state, m, threads);
        })->UseRealTime();
      }
#endif
    }
  }
}

/// The other profile's products with the same weights.
void add_mma_products() {
  const auto w = weights(Dtype::bf16);
  for (const std::size_t m : {1, 8, 64, 256}) {
    for (const Backend backend : supported_backends()) {
      const std::string label =
          "mma_matmul/" + std::string(name(backend)) + "/bf16/m:" + std::to_string(m);
      benchmark::RegisterBenchmark(label.c_str(), [=](benchmark::State& state) {
        matmul_speed(state, backend, w->packed, m, nullptr, &mma_matmul);
      })->UseRealTime();
    }
  }
}

void add_streams(ThreadPool& pool) {
  benchmark::RegisterBenchmark("read/threads:1", read_speed)->UseRealTime();
  benchmark::RegisterBenchmark("read/all_threads", read_speed)
      ->Threads(pool.threads())
      ->UseRealTime();
  for (const auto& [type, dtype] :
       {std::pair("f32", Dtype::f32), {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}) {
    const std::string label = std::string("matmul_streamed/") + type;
    benchmark::RegisterBenchmark((label + "/threads:1").c_str(), [dtype = dtype](
                                                                     benchmark::State& state) {
      streamed_speed(state, dtype, nullptr);
    })->UseRealTime();
    benchmark::RegisterBenchmark((label + "/all_threads").c_str(), [dtype = dtype, &pool](
                                                                       benchmark::State& state) {
      streamed_speed(state, dtype, &pool);
    })->UseRealTime();
  }
}

void add_others() {
  for (const Backend backend : supported_backends()) {
    const std::string of = "/" + std::string(name(backend));
    const auto add = [&](const std::string& label, auto body) {
      benchmark::RegisterBenchmark((label + of).c_str(), body);
    };
    add("exp", [=](benchmark::State& s) { elementary_speed(s, backend, exp_f32, -20, 0); });
    add("log", [=](benchmark::State& s) { elementary_speed(s, backend, log_f32, 0, 1); });
    add("tanh", [=](benchmark::State& s) { elementary_speed(s, backend, tanh_f32, -3, 3); });
    add("attention/decode_at_4096",
        [=](benchmark::State& s) { attention_speed(s, backend, 1, 4096); });
    add("attention/prefill_64_at_4096",
        [=](benchmark::State& s) { attention_speed(s, backend, 64, 4096); });
    add("choose/greedy_128256", [=](benchmark::State& s) { sampling_speed(s, backend, 0, 1); });
    add("choose/t0.8_128256", [=](benchmark::State& s) { sampling_speed(s, backend, 0.8, 1); });
    add("choose/t0.8_top_p0.9_128256",
        [=](benchmark::State& s) { sampling_speed(s, backend, 0.8, 0.9); });
    add("row_statistics_128256", [=](benchmark::State& s) { row_statistics_speed(s, backend); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool(0);
  add_matmuls(pool);
  add_mma_products();
  add_streams(pool);
  add_others();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
