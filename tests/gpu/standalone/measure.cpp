// measure invariance: outputs of Llama-3-8B's shapes are the same bytes alone and among others, and from run to run.
// measure timings: times of the kernels at those shapes, beside a copy on the same device. Prints one JSON object.
// Exit code 0: as it must be; 1: not, or an error of CUDA; 2: usage; 77: no device.

#include "kernels/attention/attention_cuda.hpp"
#include "kernels/gate/gate_cuda.hpp"
#include "kernels/logits/logits_cuda.hpp"
#include "kernels/matmul/matmul_cuda.hpp"
#include "kernels/rmsnorm/rmsnorm_cuda.hpp"
#include "kernels/sampling/sampling_cuda.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace verbatim::kernels {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "measure: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Device memory until the end of the program.
template <class T>
T* device(std::size_t count) {
  void* p = nullptr;
  check(cudaMalloc(&p, std::max<std::size_t>(count * sizeof(T), 1)), "cudaMalloc");
  return static_cast<T*>(p);
}
template <class T>
T* upload(const std::vector<T>& from) {
  T* to = device<T>(from.size());
  check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return to;
}
std::vector<float> download(const float* from, std::size_t count) {
  std::vector<float> to(count);
  check(cudaDeviceSynchronize(), "a kernel");
  check(cudaMemcpy(to.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return to;
}

struct Random {
  std::uint64_t state = 1;
  std::uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 33);
  }
  float unit() { return static_cast<float>(next()) * 0x1p-30f - 1; }
};
std::vector<float> random_floats(std::size_t count) {
  Random random;
  std::vector<float> values(count);
  for (float& x : values) x = random.unit();
  return values;
}

// ---- Invariance -----------------------------------------------------------------------------------------------------

bool product_is_invariant(std::size_t n, std::size_t k) {
  Random random;
  std::vector<std::uint16_t> halves(n * k);  // bf16 between -2 and 2
  for (auto& h : halves) h = static_cast<std::uint16_t>((random.next() & 0x807fu) | 0x3f80u);
  const cuda::Weights w{upload(halves), Dtype::bf16, n, k};
  constexpr std::size_t kRowsMax = 300;
  const float* x = upload(random_floats(kRowsMax * k));
  float* y = device<float>(kRowsMax * n);
  const auto run = [&](std::size_t first, std::size_t rows) {
    cuda::matmul(w, {x + first * k, rows, k, nullptr, y, n}, nullptr);
    return download(y, rows * n);
  };
  const std::vector<float> together = run(0, kRowsMax);
  if (std::memcmp(run(0, kRowsMax).data(), together.data(), together.size() * 4) != 0) return false;
  for (const std::size_t rows : {1, 2, 3, 8, 9, 64, 65, 200}) {
    for (std::size_t first = 0; first + rows <= kRowsMax; first += 71) {
      const std::vector<float> part = run(first, rows);
      if (std::memcmp(part.data(), together.data() + first * n, part.size() * 4) != 0) return false;
    }
  }
  return true;
}

struct Cache {
  AttentionShape shape{32, 8, 128, 0.08838834764f, 0, 0};
  std::size_t context;
  const KvPage* pages;
};
Cache cache(std::size_t context) {
  Cache c;
  c.context = context;
  const std::size_t size = kv_page_floats(c.shape.kv_heads, c.shape.head_dim);
  const std::vector<float> values = random_floats(size);
  std::vector<KvPage> pages;
  for (std::size_t p = 0; p < (context + 255) / 256; ++p)
    pages.push_back({upload(values), upload(values)});
  c.pages = upload(pages);
  return c;
}

/// Queries at `positions` of one sequence; split: a block of threads a page.
std::function<void()> attention_call(const Cache& c, const float* q, float* out,
                                     const std::vector<std::size_t>& positions, bool split) {
  const std::size_t width = c.shape.heads * c.shape.head_dim;
  std::vector<cuda::AttentionRow> rows;
  for (std::size_t r = 0; r < positions.size(); ++r)
    rows.push_back({q + r * width, out + r * width, positions[r], c.pages});
  const auto tiles = cuda::attention_tiles(c.shape, rows);
  cuda::AttentionArgs args;
  args.shape = c.shape;
  args.row_count = rows.size();
  args.rows = upload(rows);
  args.tile_count = tiles.size();
  args.tiles = upload(tiles);
  args.pages_max = *std::max_element(positions.begin(), positions.end()) / 256 + 1;
  if (split) args.scratch = device<float>(cuda::attention_scratch_floats(args));
  args.range = device<bool>(rows.size());
  return [args] { cuda::attention(args, nullptr); };
}

bool attention_is_invariant() {
  const Cache c = cache(3000);
  const std::size_t width = c.shape.heads * c.shape.head_dim, count = 40;
  const float* q = upload(random_floats(count * width));
  float* out = device<float>(count * width);
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < count; ++i) positions.push_back(2700 + i);
  attention_call(c, q, out, positions, false)();
  const std::vector<float> together = download(out, count * width);
  for (std::size_t i = 0; i < count; i += 7) {
    for (const bool split : {false, true}) {
      attention_call(c, q + i * width, out, {positions[i]}, split)();
      const std::vector<float> alone = download(out, width);
      if (std::memcmp(alone.data(), together.data() + i * width, width * 4) != 0) return false;
    }
  }
  return true;
}

int invariance() {
  const bool product = product_is_invariant(4096, 4096) && product_is_invariant(1000, 14336);
  const bool attention = attention_is_invariant();
  std::printf("{\"products\": %s, \"attention\": %s}\n", product ? "true" : "false",
              attention ? "true" : "false");
  return product && attention ? 0 : 1;
}

// ---- Timings --------------------------------------------------------------------------------------------------------

/// The median of 7 groups of `calls` calls, in microseconds a call.
double time_us(const std::function<void(int)>& call, int calls) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> times;
  for (int group = -1; group < 7; ++group) {  // the first only warms up
    check(cudaEventRecord(begin, nullptr), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) call(i);
    check(cudaEventRecord(end, nullptr), "cudaEventRecord");
    check(cudaEventSynchronize(end), "a kernel");
    check(cudaGetLastError(), "a launch");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (group >= 0) times.push_back(ms * 1000.0 / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

bool first_line = true;
void line(const std::string& name, double us, double bytes, double operations) {
  std::printf("%s\n  {\"name\": \"%s\", \"us\": %.2f, \"GB_per_s\": %.1f, \"TFLOP_per_s\": %.3f}",
              first_line ? "" : ",", name.c_str(), us, bytes / us / 1e3, operations / us / 1e6);
  first_line = false;
}

void time_copy() {
  const std::size_t bytes = std::size_t{1} << 30;
  auto* from = device<std::byte>(bytes);
  auto* to = device<std::byte>(bytes);
  check(cudaMemset(from, 1, bytes), "cudaMemset");
  const double us = time_us(
      [&](int) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr), "copy");
      },
      5);
  line("copy (read and written)", us, 2.0 * static_cast<double>(bytes), 0);
  cudaFree(from);
  cudaFree(to);
}

/// Several matrices in turn, so that none is found in the cache.
void time_product(const char* name, std::size_t n, std::size_t k, Dtype dtype,
                  const std::vector<std::size_t>& batches) {
  const std::size_t bytes = n * k * element_size(dtype);
  const int copies = static_cast<int>(std::max<std::size_t>(1, (std::size_t{400} << 20) / bytes));
  std::vector<cuda::Weights> all;
  for (int i = 0; i < copies; ++i) {
    auto* data = device<std::byte>(bytes);
    check(cudaMemset(data, 0x3c, bytes),
          "cudaMemset");  // bf16 0.0115; values do not change the time
    all.push_back({data, dtype, n, k});
  }
  for (const std::size_t m : batches) {
    const float* x = upload(random_floats(m * k));
    float* y = device<float>(m * n);
    const double us = time_us(
        [&](int i) {
          cuda::matmul(all[static_cast<std::size_t>(i % copies)], {x, m, k, nullptr, y, n},
                       nullptr);
        },
        m <= 8 ? 20 : 3);
    const double moved = static_cast<double>(bytes) + 4.0 * static_cast<double>(m * (n + k));
    line(std::string(name) + " M=" + std::to_string(m), us, moved,
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
    cudaFree(const_cast<float*>(x));
    cudaFree(y);
  }
  for (const cuda::Weights& w : all) cudaFree(const_cast<void*>(w.data));
}

void time_attention() {
  const Cache c = cache(8192);
  const std::size_t width = c.shape.heads * c.shape.head_dim;
  const float* q = upload(random_floats(256 * width));
  float* out = device<float>(256 * width);
  const double kv_bytes = 8192.0 * 2 * 8 * 128 * 4;
  const auto decode = attention_call(c, q, out, {8191}, true);
  line("attention decode, context 8192", time_us([&](int) { decode(); }, 10), kv_bytes,
       4.0 * 32 * 128 * 8192);
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < 256; ++i) positions.push_back(8192 - 256 + i);
  const auto prefill = attention_call(c, q, out, positions, false);
  line("attention prefill of 256, context 8192", time_us([&](int) { prefill(); }, 2), kv_bytes,
       256 * 4.0 * 32 * 128 * 8064);
}

void time_rows() {
  const std::size_t hidden = 4096, wide = 14336, vocab = 128256;
  float* x = upload(random_floats(8 * 2 * wide));
  float* y = device<float>(8 * vocab);
  const float* w = upload(random_floats(hidden));
  for (const std::size_t m : {1, 8}) {
    const std::string rows = " M=" + std::to_string(m);
    line("rmsnorm 4096" + rows,
         time_us(
             [&](int) {
               cuda::rmsnorm({m, 1, hidden, 1e-5f, false, x, hidden, w, y, hidden}, nullptr);
             },
             50),
         8.0 * static_cast<double>(m * hidden), 0);
    line("swiglu 14336" + rows,
         time_us(
             [&](int) {
               cuda::swiglu({m, wide, x, x + wide, 2 * wide, y, wide}, nullptr);
             },
             50),
         12.0 * static_cast<double>(m * wide), 0);
    cuda::LogitRows logits;
    logits.logits = upload(random_floats(m * vocab));
    logits.rows = m;
    logits.count = logits.stride = vocab;
    auto* scratch = device<std::byte>(cuda::logit_scratch_bytes(logits));
    auto* stats = device<cuda::LogitStats>(m);
    const double bytes = 4.0 * static_cast<double>(m * vocab);
    line("logit statistics 128256" + rows,
         time_us([&](int) { cuda::logit_stats(logits, scratch, stats, nullptr); }, 20), 2 * bytes,
         0);
    auto* words = device<std::uint32_t>(cuda::digest_scratch_words(logits));
    auto* digests = device<std::uint8_t>(m * 32);
    line("logits digests 128256" + rows,
         time_us([&](int) { cuda::row_digests(logits, words, digests, nullptr); }, 10), bytes, 0);
    for (const double top_p : {1.0, 0.95}) {
      std::vector<cuda::SamplerRow> params(m);
      for (auto& p : params) {
        p.temperature = 0.8f;
        p.top_p = top_p;
      }
      cuda::SamplerArgs args;
      args.logits = logits.logits;
      args.rows = m;
      args.count = args.stride = vocab;
      args.params = upload(params);
      args.scratch = device<float>(2 * m * vocab);
      args.choices = device<cuda::TokenChoice>(m);
      line(std::string("sampling 128256") + (top_p < 1 ? ", top_p 0.95" : "") + rows,
           time_us([&](int) { cuda::choose_tokens(args, nullptr); }, top_p < 1 ? 1 : 10), bytes, 0);
    }
  }
}

int timings() {
  cudaDeviceProp device_properties;
  check(cudaGetDeviceProperties(&device_properties, 0), "cudaGetDeviceProperties");
  std::printf("{\"device\": \"%s\", \"timings\": [", device_properties.name);
  time_copy();
  const std::vector<std::size_t> decode = {1, 2, 4, 8}, both = {1, 2, 4, 8, 64, 512};
  time_product("qkv 6144x4096 bf16", 6144, 4096, Dtype::bf16, decode);
  time_product("output 4096x4096 bf16", 4096, 4096, Dtype::bf16, decode);
  time_product("gate_up 28672x4096 bf16", 28672, 4096, Dtype::bf16, both);
  time_product("down 4096x14336 bf16", 4096, 14336, Dtype::bf16, both);
  time_product("lm_head 128256x4096 bf16", 128256, 4096, Dtype::bf16, decode);
  time_product("output 4096x4096 f32", 4096, 4096, Dtype::f32, decode);
  time_product("output 4096x4096 f16", 4096, 4096, Dtype::f16, decode);
  time_attention();
  time_rows();
  std::printf("\n]}\n");
  return 0;
}

}  // namespace
}  // namespace verbatim::kernels

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what != "invariance" && what != "timings") {
    std::fprintf(stderr, "usage: measure invariance|timings\n");
    return 2;
  }
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "SKIPPED: no CUDA device: %s\n", cudaGetErrorString(error));
    return 77;
  }
  return what == "invariance" ? verbatim::kernels::invariance() : verbatim::kernels::timings();
}
