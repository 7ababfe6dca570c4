// A block of threads a row. Filters are limits in the order of the tokens (value descending, id ascending): a token stays
// when its key, an integer with that order, is not below the limit. Limits are found by counting keys, bit by bit.

#include "kernels/cuda/launch.cuh"
#include "kernels/logits/ranked_cuda.cuh"
#include "kernels/sampling/philox_cuda.cuh"
#include "kernels/sampling/sampling_cuda.hpp"

namespace verbatim::kernels::cuda {

namespace {

using Key = std::uint64_t;
constexpr unsigned kThreads = 256;
constexpr unsigned kSorted = 1024;  // keys that are sorted together

/// One row's candidates.
struct Row {
  float* x;  // (count) logits after bias, penalties and temperature
  float* e;  // (count) exp(x - m) when a filter needs it; -1: filtered out by min_p
  std::size_t count;
  bool has_e;
  Key limit;  // keys below it are out

  /// Larger for a token that comes before. Zeros of both signs are one value.
  [[nodiscard]] __device__ Key key(std::size_t i) const {
    const std::uint32_t bits = x[i] == 0 ? 0 : bits_of(x[i]);
    const std::uint32_t value = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return Key{value} << 32 | static_cast<std::uint32_t>(count - 1 - i);
  }
  [[nodiscard]] __device__ std::size_t id(Key k) const {
    return count - 1 - static_cast<std::uint32_t>(k);
  }
  [[nodiscard]] __device__ bool in(std::size_t i) const {
    return key(i) >= limit && (!has_e || e[i] >= 0);
  }
};

/// Candidates with low <= key < high, in every thread. A barrier of the block.
__device__ inline unsigned count_between(const Row& row, Key low, Key high) {
  unsigned found = 0;
  for (std::size_t i = threadIdx.x; i < row.count; i += kThreads) {
    const Key k = row.key(i);
    if (k >= low && k < high && row.in(i)) ++found;
  }
  return block_sum(found);
}

/// The key of the n-th candidate (from 1) below `high`; there are as many. Barriers of the block.
__device__ inline Key nth_below(const Row& row, Key high, unsigned n) {
  Key found = 0;
  for (int bit = 63; bit >= 0; --bit) {
    // The lower half holds numbers below count.
    if (bit < 32 && (std::uint64_t{1} << bit) > row.count) continue;
    const Key tried = found | Key{1} << bit;
    if (count_between(row, tried, high) >= n) found = tried;
  }
  return found;
}

/// Logits after bias, penalties and temperature into row.x; false when one is not finite. Barriers of the block.
__device__ inline bool adjust(const SamplerRow& p, const float* logits, const Row& row) {
  for (std::size_t i = threadIdx.x; i < row.count; i += kThreads) row.x[i] = logits[i];
  __syncthreads();  // the logits are there
  for (std::size_t i = threadIdx.x; i < p.bias_count; i += kThreads) {
    const auto at = static_cast<std::size_t>(p.bias[i].id);
    if (at < row.count) row.x[at] = rn::add(row.x[at], p.bias[i].bias);
  }
  __syncthreads();  // and biased
  for (std::size_t i = threadIdx.x; i < p.seen_count; i += kThreads) {
    const TokenCount seen = p.seen[i];
    const auto at = static_cast<std::size_t>(seen.id);
    if (at >= row.count) continue;
    float x = row.x[at];
    if (p.repetition_penalty != 1 && (seen.in_prompt > 0 || seen.in_output > 0))
      x = x > 0 ? rn::div(x, p.repetition_penalty) : rn::mul(x, p.repetition_penalty);
    if (seen.in_output > 0 && p.frequency_penalty != 0) {
      x = rn::sub(x, rn::mul(p.frequency_penalty, static_cast<float>(seen.in_output)));
    }
    if (seen.in_output > 0 && p.presence_penalty != 0) x = rn::sub(x, p.presence_penalty);
    row.x[at] = x;
  }
  __syncthreads();  // and penalised
  unsigned bad = 0;
  for (std::size_t i = threadIdx.x; i < row.count; i += kThreads) {
    if (p.temperature != 0) row.x[i] = rn::div(row.x[i], p.temperature);
    if (!finite(row.x[i])) ++bad;
  }
  return block_sum(bad) == 0;
}

/// The f64 sum of the candidates' exponentials, a chain in rising ids: the first thread's. Barriers of the block.
__device__ inline double sum_of_exponentials(const Row& row) {
  VERBATIM_SHARED_ARRAY(float, staged, kSorted);
  double total = 0;
  for (std::size_t begin = 0; begin < row.count; begin += kSorted) {
    const std::size_t left = row.count - begin;
    const unsigned count = static_cast<unsigned>(left < kSorted ? left : kSorted);
    __syncthreads();  // those of before have been added
    // A sum that is not below zero stays as it is when +0 is added.
    for (unsigned i = threadIdx.x; i < count; i += kThreads)
      staged[i] = row.in(begin + i) ? row.e[begin + i] : 0.0f;
    __syncthreads();  // the exponentials are there
    if (threadIdx.x == 0) {
      for (unsigned i = 0; i < count; ++i)
        total = rn::add(total, static_cast<double>(static_cast<float>(staged[i])));
    }
  }
  return total;
}

/// The candidates with low <= key < high, at most kSorted, in `sorted` with the largest key first, then zeros.
template <class Shared>
__device__ inline void sort_between(const Row& row, Key low, Key high, Shared sorted) {
  VERBATIM_SHARED_ARRAY(unsigned, ends, kThreads);  // of each thread's part
  unsigned mine = 0;
  for (std::size_t i = threadIdx.x; i < row.count; i += kThreads)
    mine += row.key(i) >= low && row.key(i) < high && row.in(i) ? 1 : 0;
  ends[threadIdx.x] = mine;
  for (unsigned i = threadIdx.x; i < kSorted; i += kThreads) sorted[i] = 0;
  __syncthreads();  // the counts are there
  if (threadIdx.x == 0) {
    unsigned end = 0;
    for (unsigned i = 0; i < kThreads; ++i) {
      end += ends[i];
      ends[i] = end;
    }
  }
  __syncthreads();  // the ends are there
  unsigned at = ends[threadIdx.x] - mine;
  for (std::size_t i = threadIdx.x; i < row.count; i += kThreads) {
    if (row.key(i) >= low && row.key(i) < high && row.in(i)) sorted[at++] = row.key(i);
  }
  // Bitonic sort, descending.
  for (unsigned size = 2; size <= kSorted; size *= 2) {
    for (unsigned apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();  // the step of before is done
      for (unsigned pair = threadIdx.x; pair < kSorted / 2; pair += kThreads) {
        const unsigned i = pair / apart * apart * 2 + pair % apart;
        const Key a = sorted[i], b = sorted[i + apart];
        const bool falling = (i & size) == 0;
        if (falling == (a < b)) {
          sorted[i] = b;
          sorted[i + apart] = a;
        }
      }
    }
  }
  __syncthreads();  // sorted
}

/// The limit that leaves the first candidates whose probabilities reach p. Barriers of the block.
__device__ inline Key top_p_limit(const Row& row, double top_p) {
  VERBATIM_SHARED_ARRAY(Key, sorted, kSorted);
  VERBATIM_SHARED_ARRAY(float, e, kSorted);
  VERBATIM_SHARED_ARRAY(Key, reached_at, 1);
  const double total = sum_of_exponentials(row);  // the first thread's, like `reached`
  double reached = 0;
  Key high = ~Key{0};
  for (;;) {
    const unsigned left = count_between(row, 0, high);
    if (left == 0) return 0;  // rounding kept the sum below p: all stay
    const unsigned count = left < kSorted ? left : kSorted;
    const Key low = nth_below(row, high, count);
    sort_between(row, low, high, sorted);
    for (unsigned i = threadIdx.x; i < count; i += kThreads) e[i] = row.e[row.id(sorted[i])];
    __syncthreads();  // their exponentials are there, in order
    if (threadIdx.x == 0) {
      reached_at[0] = 0;
      for (unsigned i = 0; i < count; ++i) {
        reached = rn::add(reached, rn::div(static_cast<double>(static_cast<float>(e[i])), total));
        if (reached >= top_p) {
          reached_at[0] = sorted[i];
          break;
        }
      }
    }
    __syncthreads();  // where p was reached, if it was
    const Key limit = reached_at[0];
    if (limit != 0) return limit;
    high = low;
  }
}

__global__ void __launch_bounds__(kThreads) choose_kernel(SamplerArgs a) {
  VERBATIM_SHARED_ARRAY(float, given_score, 1);
  const SamplerRow& p = a.params[blockIdx.x];
  float* scratch = a.scratch + static_cast<std::size_t>(blockIdx.x) * 2 * a.count;
  TokenChoice& choice = a.choices[blockIdx.x];
  Row row{scratch, scratch + a.count, a.count, false, 0};

  // 1. Bias, penalties, temperature.
  if (!adjust(p, a.logits + blockIdx.x * a.stride, row)) {
    if (threadIdx.x == 0) choice = {-1, -1, 0, 0};
    return;  // the whole block
  }

  // 2. Filters. The largest value passes them all.
  const bool sampled = p.temperature != 0;
  if (sampled) {
    if (p.top_k != 0 && p.top_k < row.count) row.limit = nth_below(row, ~Key{0}, p.top_k);
    if (p.min_p > 0 || p.top_p < 1) {
      TopTwo top = no_top_two();
      for (std::size_t i = threadIdx.x; i < row.count; i += kThreads)
        top.add({row.x[i], static_cast<std::int32_t>(i)});
      const float m = block_top_two(top).first.value;
      for (std::size_t i = threadIdx.x; i < row.count; i += kThreads) {
        const float e = exp(rn::sub(row.x[i], m));
        row.e[i] = p.min_p > 0 && static_cast<double>(e) < p.min_p ? -1.0f : e;
      }
      row.has_e = true;  // until a barrier, each thread reads those that it wrote
    }
    if (p.top_p < 1) {
      const Key limit = top_p_limit(row, p.top_p);
      row.limit = limit > row.limit ? limit : row.limit;
    }
  }

  // 3. Noise, and the best two scores.
  if (threadIdx.x == 0) given_score[0] = -infinity();
  __syncthreads();  // before the one that may overwrite it
  TopTwo top = no_top_two();
  for (std::size_t i = threadIdx.x; i < row.count; i += kThreads) {
    if (!row.in(i)) continue;
    const auto id = static_cast<std::int32_t>(i);
    float score = row.x[i];
    if (sampled)
      score =
          rn::add(score, gumbel_noise(p.seed, p.position, static_cast<std::uint32_t>(i), p.choice));
    top.add({score, id});
    if (id == p.given) given_score[0] = score;
  }
  top = block_top_two(top);
  if (threadIdx.x != 0) return;
  const bool alone = top.second.id == kNoId;
  float margin = alone ? infinity() : rn::sub(top.first.value, top.second.value);
  float deficit = p.given >= 0 ? rn::sub(top.first.value, given_score[0]) : 0.0f;
  if (sampled) {
    margin = rn::mul(margin, p.temperature);
    deficit = rn::mul(deficit, p.temperature);
  }
  choice = {top.first.id, alone ? -1 : top.second.id, margin, deficit};
}

}  // namespace

void choose_tokens(const SamplerArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return;
  launch(choose_kernel, dim3(static_cast<unsigned>(args.rows)), kThreads, stream, args);
}

}  // namespace verbatim::kernels::cuda
