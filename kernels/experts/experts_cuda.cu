#include "kernels/cuda/launch.cuh"
#include "kernels/elementary/elementary_cuda.cuh"
#include "kernels/experts/experts_cuda.hpp"
#include "kernels/logits/ranked_cuda.cuh"

namespace verbatim::kernels::cuda {

namespace {

/// e^(x[i] - m) of `count` values into e, and their sum in blocks of 256: one thread.
template <class Value>
__device__ inline float exponentials(std::size_t count, float m, const Value& value, float* e) {
  float t = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = count - begin < kBlock ? count : begin + kBlock;
    float s = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const float x = exp(rn::sub(value(i), m));
      if (e != nullptr) e[i] = x;
      s = rn::add(s, x);
    }
    t = rn::add(t, s);
  }
  return t;
}

/// A warp a row.
__global__ void __launch_bounds__(32) route_kernel(RoutingArgs a) {
  const std::size_t row = blockIdx.x;
  const unsigned lane = threadIdx.x;
  const float* logits = a.logits + row * a.experts;
  std::int32_t* chosen = a.chosen + row * a.per_row;
  float* weights = a.weights + row * a.per_row;

  bool all_finite = true;
  for (std::size_t e = lane; e < a.experts; e += 32) all_finite = all_finite && finite(logits[e]);
  if (__all_sync(kAllLanes, all_finite) == 0) {
    for (std::size_t rank = lane; rank < a.per_row; rank += 32) chosen[rank] = -1;
    if (lane == 0) a.range[row] = true;
    return;
  }

  // The best; then the best of those behind it; and so on.
  Ranked last{infinity(), -1};
  float highest = 0;
  for (std::size_t rank = 0; rank < a.per_row; ++rank) {
    Ranked best = no_candidate();
    for (std::size_t e = lane; e < a.experts; e += 32) {
      const Ranked candidate{logits[e], static_cast<std::int32_t>(e)};
      if (before(last, candidate) && before(candidate, best)) best = candidate;
    }
    last = warp_first(best);
    if (rank == 0) highest = last.value;
    if (lane == 0) chosen[rank] = last.id;
  }

  // A few exponentials in a written order: one lane.
  if (lane != 0) return;
  if (a.renormalize) {
    const auto value = [&](std::size_t i) { return logits[chosen[i]]; };
    const float sum = exponentials(a.per_row, highest, value, weights);
    for (std::size_t i = 0; i < a.per_row; ++i) weights[i] = rn::div(weights[i], sum);
  } else {
    const float sum = exponentials(
        a.experts, highest, [&](std::size_t i) { return logits[i]; }, nullptr);
    for (std::size_t i = 0; i < a.per_row; ++i)
      weights[i] = rn::div(exp(rn::sub(logits[chosen[i]], highest)), sum);
  }
}

/// A warp an expert: counts the slots of those before it, then writes its own.
__global__ void __launch_bounds__(32)
    group_kernel(const std::int32_t* chosen, std::size_t slot_count, std::size_t experts,
                 std::uint32_t* first, std::uint32_t* slots) {
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const unsigned lane = threadIdx.x;
  std::uint32_t at = 0;
  for (std::size_t begin = 0; begin < slot_count; begin += 32) {
    const std::int32_t e = begin + lane < slot_count ? chosen[begin + lane] : -1;
    at += static_cast<std::uint32_t>(__popc(__ballot_sync(kAllLanes, e >= 0 && e < expert)));
  }
  if (lane == 0) first[expert] = at;
  for (std::size_t begin = 0; begin < slot_count; begin += 32) {
    const bool mine = begin + lane < slot_count && chosen[begin + lane] == expert;
    const unsigned votes = __ballot_sync(kAllLanes, mine);
    if (mine) {
      slots[at + static_cast<std::uint32_t>(__popc(votes & ((1u << lane) - 1)))] =
          static_cast<std::uint32_t>(begin + lane);
    }
    at += static_cast<std::uint32_t>(__popc(votes));
  }
  if (lane == 0 && blockIdx.x + 1 == experts) first[experts] = at;
}

struct Mix {
  MixArgs a;

  /// i = row * cols + column.
  __device__ void operator()(std::size_t i) const {
    const std::size_t row = i / a.cols, c = i % a.cols;
    float acc = 0;
    for (std::size_t rank = 0; rank < a.per_row; ++rank) {
      const std::size_t slot = row * a.per_row + rank;
      if (a.chosen[slot] >= 0) acc = rn::fma(a.weights[slot], a.branches[slot * a.cols + c], acc);
    }
    a.out[i] = acc;
  }
};

}  // namespace

void route(const RoutingArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return;
  launch(route_kernel, dim3(static_cast<unsigned>(args.rows)), 32, stream, args);
}

void group_by_expert(const std::int32_t* chosen, std::size_t slot_count, std::size_t experts,
                     std::uint32_t* first, std::uint32_t* slots, cudaStream_t stream) {
  launch(group_kernel, dim3(static_cast<unsigned>(experts)), 32, stream, chosen, slot_count,
         experts, first, slots);
}

void mix(const MixArgs& args, cudaStream_t stream) {
  for_each(args.rows * args.cols, Mix{args}, stream);
}

}  // namespace verbatim::kernels::cuda
