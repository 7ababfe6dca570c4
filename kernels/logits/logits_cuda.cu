// A row is cut into parts of eight blocks of 256, a block of threads each: first the best two of a part, then, with the
// row's maximum, the sums of its blocks' exponentials. A last block of threads a row puts the parts together.

#include "kernels/cuda/launch.cuh"
#include "kernels/elementary/elementary_cuda.cuh"
#include "kernels/logits/logits_cuda.hpp"
#include "kernels/logits/ranked_cuda.cuh"
#include "kernels/logits/sha256_cuda.cuh"

namespace verbatim::kernels::cuda {

namespace {

constexpr unsigned kPartBlocks = 8, kPart = kPartBlocks * kBlock;
constexpr std::size_t kDigestBlock = 1024;

struct PartBest {
  TopTwo top;
  std::int32_t finite;
};

/// Scratch: the parts' best (rows, parts), then the blocks' sums (rows, blocks).
struct Scratch {
  PartBest* parts;
  float* sums;
};
Scratch scratch_of(const LogitRows& rows, void* scratch) {
  auto* parts = static_cast<PartBest*>(scratch);
  return {parts, reinterpret_cast<float*>(parts + rows.rows * pieces(rows.count, kPart))};
}

/// Grid: (parts, rows).
__global__ void __launch_bounds__(256) part_kernel(LogitRows a, Scratch scratch) {
  const float* x = a.logits + blockIdx.y * a.stride;
  const std::size_t begin = static_cast<std::size_t>(blockIdx.x) * kPart;
  const std::size_t end = a.count - begin < kPart ? a.count : begin + kPart;
  TopTwo top = no_top_two();
  unsigned bad = 0;
  for (std::size_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    top.add({x[i], static_cast<std::int32_t>(i)});
    if (!finite(x[i])) ++bad;
  }
  top = block_top_two(top);
  bad = block_sum(bad);
  if (threadIdx.x == 0)
    scratch.parts[blockIdx.y * gridDim.x + blockIdx.x] = {top, bad == 0 ? 1 : 0};
}

/// The row's best two, and whether it is finite, in every thread.
__device__ inline PartBest row_best(const PartBest* parts, unsigned count) {
  TopTwo top = no_top_two();
  unsigned bad = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    top.add(parts[i].top.first);
    top.add(parts[i].top.second);
    if (parts[i].finite == 0) ++bad;
  }
  top = block_top_two(top);
  return {top, block_sum(bad) == 0 ? 1 : 0};
}

/// Grid: (parts, rows).
__global__ void __launch_bounds__(256) sum_kernel(LogitRows a, Scratch scratch) {
  constexpr unsigned kStride = kBlock + 1;  // blocks begin in different banks
  VERBATIM_SHARED_ARRAY(float, e, kPartBlocks* kStride);
  const float* x = a.logits + blockIdx.y * a.stride;
  const std::size_t begin = static_cast<std::size_t>(blockIdx.x) * kPart;
  const unsigned count = static_cast<unsigned>(a.count - begin < kPart ? a.count - begin : kPart);
  const float m = row_best(scratch.parts + blockIdx.y * gridDim.x, gridDim.x).top.first.value;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
    e[i / kBlock * kStride + i % kBlock] = exp(rn::sub(x[begin + i], m));
  __syncthreads();  // the exponentials are there
  const unsigned block = threadIdx.x;
  if (block * kBlock >= count) return;  // no barrier follows
  const unsigned depth = count - block * kBlock < kBlock ? count - block * kBlock : kBlock;
  float s = 0;
  for (unsigned k = 0; k < depth; ++k) s = rn::add(s, e[block * kStride + k]);
  scratch.sums[blockIdx.y * static_cast<std::size_t>(pieces(a.count, kBlock)) +
               blockIdx.x * kPartBlocks + block] = s;
}

/// A block of threads a row.
__global__ void __launch_bounds__(256)
    finish_kernel(LogitRows a, Scratch scratch, LogitStats* stats) {
  VERBATIM_SHARED_ARRAY(float, staged, 256);
  const std::size_t row = blockIdx.x;
  const unsigned parts = pieces(a.count, kPart), blocks = pieces(a.count, kBlock);
  const PartBest best = row_best(scratch.parts + row * parts, parts);
  const float* sums = scratch.sums + row * blocks;
  float t = 0;  // the first thread's
  for (unsigned begin = 0; begin < blocks; begin += 256) {
    const unsigned count = blocks - begin < 256 ? blocks - begin : 256;
    __syncthreads();  // those of before have been added
    if (threadIdx.x < count) staged[threadIdx.x] = sums[begin + threadIdx.x];
    __syncthreads();  // the sums are there
    if (threadIdx.x == 0) {
      for (unsigned i = 0; i < count; ++i) t = rn::add(t, staged[i]);
    }
  }
  if (threadIdx.x != 0) return;
  const TopTwo& top = best.top;
  const bool one = top.second.id == kNoId;
  stats[row] = {best.finite,
                top.first.id,
                one ? -1 : top.second.id,
                top.first.value,
                one ? 0.0f : top.second.value,
                top.first.value,
                t};
}

struct Logprob {
  LogitRows a;
  const LogitStats* stats;
  const std::int32_t* ids;
  float* out;

  __device__ void operator()(std::size_t row) const {
    const float x = a.logits[row * a.stride + static_cast<std::size_t>(ids[row])];
    out[row] = rn::sub(rn::sub(x, stats[row].max), log(stats[row].sum));
  }
};

/// A block of threads a row: the best; then the best of those behind it; and so on.
__global__ void __launch_bounds__(256) top_kernel(LogitRows a, std::size_t top, std::int32_t* ids) {
  const float* x = a.logits + blockIdx.x * a.stride;
  Ranked last{infinity(), -1};
  for (std::size_t rank = 0; rank < top; ++rank) {
    TopTwo best = no_top_two();
    for (std::size_t i = threadIdx.x; i < a.count; i += blockDim.x) {
      const Ranked candidate{x[i], static_cast<std::int32_t>(i)};
      if (before(last, candidate)) best.add(candidate);
    }
    last = block_top_two(best).first;
    if (threadIdx.x == 0) ids[blockIdx.x * top + rank] = last.id;
  }
}

struct BlockDigest {
  LogitRows a;
  std::size_t blocks;
  std::uint32_t* digests;  // (rows, blocks, 8)

  /// i = row * blocks + block.
  __device__ void operator()(std::size_t i) const {
    const std::size_t begin = i % blocks * kDigestBlock;
    const float* x = a.logits + i / blocks * a.stride + begin;
    const std::size_t left = a.count - begin;
    const Sha256 digest = sha256(left < kDigestBlock ? left : kDigestBlock, [&](std::size_t n) {
      const std::uint32_t bits = bits_of(x[n]);  // its bytes lie lowest first
      return bits << 24 | (bits << 8 & 0xff0000u) | (bits >> 8 & 0xff00u) | bits >> 24;
    });
    for (unsigned n = 0; n < 8; ++n) digests[i * 8 + n] = digest.words[n];
  }
};
struct RowDigest {
  std::size_t blocks;
  const std::uint32_t* block_digests;
  std::uint8_t* digests;

  __device__ void operator()(std::size_t row) const {
    const std::uint32_t* of_row = block_digests + row * blocks * 8;
    const Sha256 digest = sha256(blocks * 8, [&](std::size_t n) { return of_row[n]; });
    for (unsigned n = 0; n < 32; ++n)
      digests[row * 32 + n] = static_cast<std::uint8_t>(digest.words[n / 4] >> (24 - 8 * (n % 4)));
  }
};

}  // namespace

std::size_t logit_scratch_bytes(const LogitRows& rows) {
  return rows.rows * (pieces(rows.count, kPart) * sizeof(PartBest) +
                      pieces(rows.count, kBlock) * sizeof(float));
}

void logit_stats(const LogitRows& rows, void* scratch, LogitStats* stats, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const Scratch parts = scratch_of(rows, scratch);
  const dim3 grid(pieces(rows.count, kPart), static_cast<unsigned>(rows.rows));
  launch(part_kernel, grid, 256, stream, rows, parts);
  launch(sum_kernel, grid, 256, stream, rows, parts);
  launch(finish_kernel, dim3(static_cast<unsigned>(rows.rows)), 256, stream, rows, parts, stats);
}

void logprobs(const LogitRows& rows, const LogitStats* stats, const std::int32_t* ids, float* out,
              cudaStream_t stream) {
  for_each(rows.rows, Logprob{rows, stats, ids, out}, stream);
}

void top_ids(const LogitRows& rows, std::size_t top, std::int32_t* ids, cudaStream_t stream) {
  if (rows.rows == 0 || top == 0) return;
  launch(top_kernel, dim3(static_cast<unsigned>(rows.rows)), 256, stream, rows, top, ids);
}

std::size_t digest_scratch_words(const LogitRows& rows) {
  return rows.rows * pieces(rows.count, kDigestBlock) * 8;
}

void row_digests(const LogitRows& rows, std::uint32_t* scratch, std::uint8_t* digests,
                 cudaStream_t stream) {
  const std::size_t blocks = pieces(rows.count, kDigestBlock);
  for_each(rows.rows * blocks, BlockDigest{rows, blocks, scratch}, stream);
  for_each(rows.rows, RowDigest{blocks, scratch, digests}, stream);
}

}  // namespace verbatim::kernels::cuda
