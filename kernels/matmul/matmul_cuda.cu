// Few rows (decode): a block of threads for each panel of 16 outputs, which reads its weights once. Each thread has two
// outputs and one block of K at a time; the partial sums meet in shared memory and are added in rising order.
// Many rows (prefill): tiles of outputs, each thread with 4 or 8 times 8 of them: a sum of the block of K and a total.
// Which of the two runs depends on the number of rows; the order of operations for an output does not.

#include "kernels/cuda/launch.cuh"
#include "kernels/matmul/matmul_cuda.hpp"
#include "kernels/matmul/stored_cuda.cuh"

#include <stdexcept>

namespace verbatim::kernels::cuda {

namespace {

constexpr std::size_t kDecodeRowsMax = 8;

/// What one blockIdx.z multiplies.
struct Product {
  const void* weights;
  const float* bias;
  const std::uint32_t* slots;  // null: rows are their own slots
  std::size_t m;
};

/// A plain product is a group of one.
struct Args {
  GroupedMatmulArgs grouped;
  Product single;
};
__device__ inline Product product_of(const Args& a, unsigned group) {
  const GroupedMatmulArgs& g = a.grouped;
  if (g.weights == nullptr) return a.single;
  return {g.weights[group], g.biases != nullptr ? g.biases[group] : nullptr,
          g.slots + g.first[group], g.first[group + 1] - g.first[group]};
}

__device__ inline const float* x_row(const GroupedMatmulArgs& a, const Product& p, std::size_t i) {
  return a.x + (p.slots != nullptr ? p.slots[i] / a.slots_per_x_row : i) * a.x_stride;
}
__device__ inline void write(const GroupedMatmulArgs& a, const Product& p, std::size_t i,
                             std::size_t n, float t) {
  float* y = a.y + (p.slots != nullptr ? p.slots[i] : i) * a.y_stride;
  y[n] = p.bias != nullptr ? rn::add(t, p.bias[n]) : t;
}

// ---- Few rows -------------------------------------------------------------------------------------------------------

constexpr unsigned kPairs = kPanelRows / 2;         // threads for the 16 outputs of a panel
constexpr unsigned kBlocksTogether = 256 / kPairs;  // blocks of K in one round of 256 threads

/// The chains of two outputs over one block of K: s[r] = (first, second output). kAhead pairs of weights are under way while
/// as many are used.
template <Dtype dtype, unsigned kRows, unsigned kAhead>
__device__ inline void chains(const void* weights, std::size_t at, unsigned depth,
                              const float* const (&x)[kRows], bool aligned, float2 (&s)[kRows]) {
  Pair<dtype> ahead[kAhead];
  const unsigned whole = depth / kAhead * kAhead;
  if (whole > 0) {
    for (unsigned i = 0; i < kAhead; ++i) ahead[i] = load_pair<dtype>(weights, at + i * kPanelRows);
  }
  for (unsigned k = 0; k < whole; k += kAhead) {
    Pair<dtype> w[kAhead];
    for (unsigned i = 0; i < kAhead; ++i) w[i] = ahead[i];
    if (k + kAhead < whole) {
#pragma unroll
      for (unsigned i = 0; i < kAhead; ++i)
        ahead[i] = load_pair<dtype>(weights, at + (k + kAhead + i) * kPanelRows);
    }
#pragma unroll
    for (unsigned i = 0; i < kAhead; i += 4) {
#pragma unroll
      for (unsigned r = 0; r < kRows; ++r) {
        const float4 v = load4(x[r] + k + i, aligned);
        const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) {
          s[r].x = rn::fma(values[j], first_of<dtype>(w[i + j]), s[r].x);
          s[r].y = rn::fma(values[j], second_of<dtype>(w[i + j]), s[r].y);
        }
      }
    }
  }
  for (unsigned k = whole; k < depth; ++k) {
    const Pair<dtype> w = load_pair<dtype>(weights, at + k * kPanelRows);
    for (unsigned r = 0; r < kRows; ++r) {
      s[r].x = rn::fma(x[r][k], first_of<dtype>(w), s[r].x);
      s[r].y = rn::fma(x[r][k], second_of<dtype>(w), s[r].y);
    }
  }
}

/// Grid: (panels, rows / kRows, groups). A multiple of 32 threads, at least 16 * kRows, at most 256.
template <Dtype dtype, unsigned kRows>
__global__ void __launch_bounds__(256) decode_kernel(Args args) {
  const GroupedMatmulArgs& a = args.grouped;
  VERBATIM_SHARED_ARRAY(float, partial, kBlocksTogether* kRows* kPanelRows);  // (block, row, n)
  const Product p = product_of(args, blockIdx.z);
  const std::size_t first_row = static_cast<std::size_t>(blockIdx.y) * kRows;
  if (first_row >= p.m) return;  // the whole block of threads

  const unsigned t = threadIdx.x, pair = t % kPairs, mine = t / kPairs;
  const unsigned together = blockDim.x / kPairs;
  const unsigned blocks = pieces(a.cols, kBlock);
  const bool aligned = aligned4(a.x, a.x_stride);
  // A row that is not there repeats the last: its sums are not written.
  std::size_t row[kRows];
  for (unsigned r = 0; r < kRows; ++r) row[r] = first_row + r < p.m ? first_row + r : p.m - 1;

  float total = 0;  // of output t: row t / 16, column t % 16
  for (unsigned round = 0; round < blocks; round += together) {
    const unsigned block = round + mine;
    if (block < blocks) {
      const std::size_t k = static_cast<std::size_t>(block) * kBlock;
      const unsigned depth = static_cast<unsigned>(a.cols - k < kBlock ? a.cols - k : kBlock);
      const float* x[kRows];
      float2 s[kRows];
      for (unsigned r = 0; r < kRows; ++r) {
        x[r] = x_row(a, p, row[r]) + k;
        s[r] = {0, 0};
      }
      const std::size_t at = (blockIdx.x * a.cols + k) * kPanelRows + pair * 2;
      chains<dtype, kRows, kRows <= 2 ? 16 : 8>(p.weights, at, depth, x, aligned, s);
      for (unsigned r = 0; r < kRows; ++r) {
        partial[(mine * kRows + r) * kPanelRows + pair * 2] = s[r].x;
        partial[(mine * kRows + r) * kPanelRows + pair * 2 + 1] = s[r].y;
      }
    }
    __syncthreads();  // all sums of the round are there
    if (t < kRows * kPanelRows) {
      const unsigned count = blocks - round < together ? blocks - round : together;
      for (unsigned b = 0; b < count; ++b)
        total = rn::add(total, partial[b * kRows * kPanelRows + t]);
    }
    __syncthreads();  // and have been added
  }
  const std::size_t i = first_row + t / kPanelRows, n = blockIdx.x * kPanelRows + t % kPanelRows;
  if (t < kRows * kPanelRows && i < p.m && n < a.rows) write(a, p, i, n, total);
}

// ---- Many rows ------------------------------------------------------------------------------------------------------

constexpr unsigned kTileCols = 128, kTileDepth = 16;
constexpr unsigned kTilePanels = kTileCols / kPanelRows;
constexpr unsigned kWStride = kTileCols + 16;  // fewer bank conflicts when a tile is written

/// Eight weights of one k, and some values of one row: what a thread brings for a tile.
template <unsigned kQuads>
struct Brought {
  float4 w[2];
  float4 x[kQuads];
};

/// Grid: (columns / 128, rows / (64 * kQuads), groups), 256 threads: 16 by 16, each with kQuads * 4 rows and 8 columns.
template <Dtype dtype, unsigned kQuads>
__global__ void __launch_bounds__(256) tile_kernel(Args args) {
  const GroupedMatmulArgs& a = args.grouped;
  constexpr unsigned kTileRows = 64 * kQuads;
  VERBATIM_SHARED_ARRAY(float, x_tile, 2 * kTileDepth * kTileRows);  // (buffer, k, row)
  VERBATIM_SHARED_ARRAY(float, w_tile, 2 * kTileDepth * kWStride);   // (buffer, k, column)
  const Product p = product_of(args, blockIdx.z);
  const std::size_t first_row = static_cast<std::size_t>(blockIdx.y) * kTileRows;
  if (first_row >= p.m) return;  // the whole block of threads

  const unsigned t = threadIdx.x, across = t % 16, down = t / 16;
  const bool aligned = aligned4(a.x, a.x_stride);

  // What this thread brings: of panel t / 32, eight columns of one k; of one row, kQuads * 4 values.
  const unsigned w_k = t % 32 / 2, w_col = t / 32 * kPanelRows + t % 2 * 8;
  const std::size_t panel = static_cast<std::size_t>(blockIdx.x) * kTilePanels + t / 32;
  const bool has_panel = panel * kPanelRows < a.rows;
  const unsigned x_i = t % kTileRows, x_k = t / kTileRows * kQuads * 4;
  const bool has_row = first_row + x_i < p.m;
  const float* x = has_row ? x_row(a, p, first_row + x_i) : nullptr;

  // Beyond K, and where there is no row or panel, both are +0: a step of a chain that changes nothing.
  const auto bring = [&](std::size_t k0) {
    Brought<kQuads> b{};
    if (has_panel && k0 + w_k < a.cols) {
      load_eight<dtype>(p.weights, (panel * a.cols + k0 + w_k) * kPanelRows + t % 2 * 8, b.w);
    }
    for (unsigned q = 0; q < kQuads; ++q) {
      const std::size_t k = k0 + x_k + q * 4;
      if (!has_row || k >= a.cols) continue;
      const std::size_t left = a.cols - k;
      if (left >= 4) {
        b.x[q] = load4(x + k, aligned);
      } else {
        b.x[q].x = x[k];
        if (left > 1) b.x[q].y = x[k + 1];
        if (left > 2) b.x[q].z = x[k + 2];
      }
    }
    return b;
  };
  const auto put = [&](unsigned buffer, const Brought<kQuads>& b) {
    const auto w = w_tile + (buffer * kTileDepth + w_k) * kWStride + w_col;
    store4(w, b.w[0]);
    store4(w + 4, b.w[1]);
    const auto column = x_tile + (buffer * kTileDepth + x_k) * kTileRows + x_i;
    for (unsigned q = 0; q < kQuads; ++q) {
      column[(q * 4 + 0) * kTileRows] = b.x[q].x;
      column[(q * 4 + 1) * kTileRows] = b.x[q].y;
      column[(q * 4 + 2) * kTileRows] = b.x[q].z;
      column[(q * 4 + 3) * kTileRows] = b.x[q].w;
    }
  };

  float total[kQuads * 4][8] = {}, s[kQuads * 4][8] = {};
  const unsigned tiles = pieces(a.cols, kTileDepth);
  put(0, bring(0));
  __syncthreads();  // the first tile is there
  for (unsigned tile = 0; tile < tiles; ++tile) {
    const unsigned buffer = tile % 2;
    const bool more = tile + 1 < tiles;
    Brought<kQuads> next;
    if (more) next = bring(static_cast<std::size_t>(tile + 1) * kTileDepth);
#pragma unroll
    for (unsigned k = 0; k < kTileDepth; ++k) {
      const auto w = w_tile + (buffer * kTileDepth + k) * kWStride + across * 4;
      const auto v = x_tile + (buffer * kTileDepth + k) * kTileRows + down * 4;
      const float4 w0 = load4(w), w1 = load4(w + kTileCols / 2);
      const float weight[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
#pragma unroll
      for (unsigned q = 0; q < kQuads; ++q) {
        const float4 x4 = load4(v + q * 64);
        const float value[4] = {x4.x, x4.y, x4.z, x4.w};
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
#pragma unroll
          for (unsigned j = 0; j < 8; ++j)
            s[q * 4 + i][j] = rn::fma(value[i], weight[j], s[q * 4 + i][j]);
        }
      }
    }
    if (more) put(1 - buffer, next);
    if (!more || (tile + 1) % (kBlock / kTileDepth) == 0) {
#pragma unroll
      for (unsigned i = 0; i < kQuads * 4; ++i) {
#pragma unroll
        for (unsigned j = 0; j < 8; ++j) {
          total[i][j] = rn::add(total[i][j], s[i][j]);
          s[i][j] = 0;
        }
      }
    }
    __syncthreads();  // the next tile is there, and this one has been read
  }
#pragma unroll
  for (unsigned i = 0; i < kQuads * 4; ++i) {
#pragma unroll
    for (unsigned j = 0; j < 8; ++j) {
      const std::size_t row = first_row + i / 4 * 64 + down * 4 + i % 4;
      const std::size_t n = static_cast<std::size_t>(blockIdx.x) * kTileCols +
                            j / 4 * (kTileCols / 2) + across * 4 + j % 4;
      if (row < p.m && n < a.rows) write(a, p, row, n, total[i][j]);
    }
  }
}

// ---- Which of them --------------------------------------------------------------------------------------------------

template <Dtype dtype, unsigned kRows>
void launch_decode(const Args& a, std::size_t m, unsigned groups, cudaStream_t stream) {
  // A warp takes four blocks of K; the totals need a thread each.
  const unsigned for_blocks = pieces(a.grouped.cols, 4 * kBlock) * 32, for_totals = kRows * 16;
  unsigned threads = for_blocks > for_totals ? for_blocks : for_totals;
  if (threads < 32) threads = 32;
  if (threads > 256) threads = 256;
  launch(decode_kernel<dtype, kRows>,
         dim3(pieces(a.grouped.rows, kPanelRows), pieces(m, kRows), groups), threads, stream, a);
}

template <Dtype dtype, unsigned kQuads>
void launch_tiles(const Args& a, std::size_t m, unsigned groups, cudaStream_t stream) {
  launch(tile_kernel<dtype, kQuads>,
         dim3(pieces(a.grouped.rows, kTileCols), pieces(m, 64 * kQuads), groups), 256, stream, a);
}

template <Dtype dtype>
void launch_product(const Args& a, std::size_t m, unsigned groups, cudaStream_t stream) {
  if (m == 1) return launch_decode<dtype, 1>(a, m, groups, stream);
  if (m == 2) return launch_decode<dtype, 2>(a, m, groups, stream);
  if (m <= 4) return launch_decode<dtype, 4>(a, m, groups, stream);
  if (m <= kDecodeRowsMax) return launch_decode<dtype, 8>(a, m, groups, stream);
  if (m <= 64) return launch_tiles<dtype, 1>(a, m, groups, stream);
  launch_tiles<dtype, 2>(a, m, groups, stream);
}

void launch_product(const Args& a, std::size_t m, unsigned groups, cudaStream_t stream) {
  if (m == 0 || a.grouped.rows == 0 || groups == 0) return;
  switch (a.grouped.dtype) {
    case Dtype::f32:
      return launch_product<Dtype::f32>(a, m, groups, stream);
    case Dtype::bf16:
      return launch_product<Dtype::bf16>(a, m, groups, stream);
    case Dtype::f16:
      return launch_product<Dtype::f16>(a, m, groups, stream);
    default:
      throw std::invalid_argument("quantised weights have no CUDA product");
  }
}

struct GatheredRow {
  Weights w;
  const std::int32_t* ids;
  float scale;
  float* out;

  /// i = row * cols + column.
  __device__ void operator()(std::size_t i) const {
    const auto n = static_cast<std::size_t>(ids[i / w.cols]);
    const float e = element(w.data, w.dtype, w.cols, n, i % w.cols);
    out[i] = scale == 1 ? e : rn::mul(e, scale);
  }
};

}  // namespace

void matmul(const Weights& weights, const MatmulArgs& args, cudaStream_t stream) {
  Args all;
  all.grouped.dtype = weights.dtype;
  all.grouped.rows = weights.rows;
  all.grouped.cols = weights.cols;
  all.grouped.x = args.x;
  all.grouped.x_stride = args.x_stride;
  all.grouped.y = args.y;
  all.grouped.y_stride = args.y_stride;
  all.single = {weights.data, args.bias, nullptr, args.m};
  launch_product(all, args.m, 1, stream);
}

void grouped_matmul(const GroupedMatmulArgs& args, cudaStream_t stream) {
  launch_product({args, {}}, args.slots_of_one_max, static_cast<unsigned>(args.experts), stream);
}

void gather_rows(const Weights& weights, const std::int32_t* ids, std::size_t count, float scale,
                 float* out, cudaStream_t stream) {
  for_each(count * weights.cols, GatheredRow{weights, ids, scale, out}, stream);
}

}  // namespace verbatim::kernels::cuda
