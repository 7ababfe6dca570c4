// The emulation must catch what it is for: each kernel here is wrong in one way, beside one that is right.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace verbatim::emulation {
namespace {

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, Args... args) {
  cudaLaunchConfig_t config;
  config.gridDim = grid;
  config.blockDim = block;
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, args...), cudaSuccess);
}

/// What the launch is reported for; "" when it is not.
template <class... Params, class... Args>
std::string fault_of(void (*kernel)(Params...), dim3 block, Args... args) {
  cudaLaunchConfig_t config;
  config.blockDim = block;
  try {
    cudaLaunchKernelEx(&config, kernel, args...);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

class Emulation : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { use(kSchedules[GetParam()]); }
  void TearDown() override {
    use(kSchedules[0]);
    for (void* p : allocations_) release(p);
  }
  template <class T>
  T* device(std::size_t count) {
    allocations_.push_back(allocate(count * sizeof(T)));
    return static_cast<T*>(allocations_.back());
  }

 private:
  std::vector<void*> allocations_;
};
INSTANTIATE_TEST_SUITE_P(Schedules, Emulation, testing::Range<std::size_t>(0, kSchedules.size()));

/// Each thread hands its number to the next through shared memory, `rounds` times.
__global__ void rotate(int rounds, bool first_barrier, bool second_barrier, int* out) {
  VERBATIM_SHARED_ARRAY(int, box, 96);
  const auto t = threadIdx.x;
  int mine = static_cast<int>(t);
  for (int i = 0; i < rounds; ++i) {
    box[t] = mine;
    if (first_barrier) __syncthreads();
    mine = box[(t + 1) % blockDim.x];
    if (second_barrier) __syncthreads();
  }
  out[blockIdx.x * blockDim.x + t] = mine;
}

TEST_P(Emulation, RunsEveryThreadOfEveryBlockWithItsBarriers) {
  int* out = device<int>(3 * 96);
  launch(rotate, 3, 96, 5, true, true, out);
  for (int i = 0; i < 3 * 96; ++i) EXPECT_EQ(out[i], (i % 96 + 5) % 96) << i;
}

TEST_P(Emulation, CatchesAMissingBarrierBetweenAWriteAndARead) {
  const std::string fault = fault_of(rotate, 96, 1, false, true, device<int>(96));
  EXPECT_NE(fault.find("box["), std::string::npos) << fault;
  // Whoever reads first finds nothing yet, or what another wrote just now.
  EXPECT_TRUE(fault.find("never written") != std::string::npos ||
              fault.find("no barrier between") != std::string::npos)
      << fault;
}

TEST_P(Emulation, CatchesAMissingBarrierBetweenAReadAndTheNextWrite) {
  const std::string fault = fault_of(rotate, 96, 2, true, false, device<int>(96));
  EXPECT_NE(fault.find("no barrier between"), std::string::npos) << fault;
}

__global__ void two_writers() {
  VERBATIM_SHARED_ARRAY(float, total, 1);
  total[0] = static_cast<float>(threadIdx.x);
}
TEST_P(Emulation, CatchesTwoWritersOfOneElement) {
  EXPECT_NE(fault_of(two_writers, 2).find("wrote it with no barrier between"), std::string::npos);
}

/// A reduction within a warp through shared memory.
__global__ void warp_sum(bool barriers, int* out) {
  VERBATIM_SHARED_ARRAY(int, part, 64);
  const auto t = threadIdx.x;
  part[t] = 1 << (t % 8);
  for (unsigned half = 16; half > 0; half /= 2) {
    if (barriers) __syncwarp();
    const int other = part[t % 32 + half < 32 ? t + half : t];
    const int mine = part[t];
    if (barriers) __syncwarp();
    part[t] = mine + other;
  }
  if (t % 32 == 0) out[t / 32] = part[t];
}
TEST_P(Emulation, KnowsBarriersOfAWarp) {
  int* out = device<int>(2);
  launch(warp_sum, 1, 64, true, out);
  EXPECT_EQ(out[0], 4 * 255);
  EXPECT_EQ(out[1], 4 * 255);
  EXPECT_NE(fault_of(warp_sum, 64, false, out), "");
}

__global__ void read_across_warps_after_a_warp_barrier(int* out) {
  VERBATIM_SHARED_ARRAY(int, box, 64);
  box[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = box[threadIdx.x ^ 32];
}
TEST_P(Emulation, ABarrierOfAWarpOrdersNoOtherWarp) {
  EXPECT_NE(fault_of(read_across_warps_after_a_warp_barrier, 64, device<int>(64)), "");
}

__global__ void read_before_write(float* out) {
  VERBATIM_SHARED_ARRAY(float, sums, 4);
  if (threadIdx.x < 3) sums[threadIdx.x] = 1;
  __syncthreads();
  out[0] = sums[3];
}
TEST_P(Emulation, CatchesUninitialisedSharedMemory) {
  const std::string fault = fault_of(read_before_write, 32, device<float>(1));
  EXPECT_NE(fault.find("sums[3] is read, but was never written"), std::string::npos) << fault;
}

__global__ void keeps_shared_memory_over_blocks(float* out) {
  VERBATIM_SHARED_ARRAY(float, kept, 1);
  if (blockIdx.x == 0) kept[0] = 1;
  out[blockIdx.x] = kept[0];
}
TEST_P(Emulation, SharedMemoryIsUnwrittenInEveryBlock) {
  EXPECT_THROW(launch(keeps_shared_memory_over_blocks, 2, 1, device<float>(2)), Fault);
}

__global__ void reads_shared_at(int i, float* out) {
  VERBATIM_SHARED_ARRAY(float, before, 8);
  VERBATIM_SHARED_ARRAY(float, tile, 8);
  VERBATIM_SHARED_ARRAY(float, behind, 8);
  for (int k = 0; k < 8; ++k) before[k] = tile[k] = behind[k] = 0;
  *out = tile[i];
}
TEST_P(Emulation, CatchesSharedMemoryOutOfBoundsEvenIntoAnotherArray) {
  float* out = device<float>(1);
  EXPECT_EQ(fault_of(reads_shared_at, 1, 7, out), "");
  EXPECT_NE(fault_of(reads_shared_at, 1, 8, out).find("tile[8] is outside"), std::string::npos);
  EXPECT_NE(fault_of(reads_shared_at, 1, -1, out).find("is outside"), std::string::npos);
}

__global__ void reads_vector_at(int i, float* out) {
  VERBATIM_SHARED_ARRAY(float, tile, 8);
  for (int k = 0; k < 8; ++k) tile[k] = static_cast<float>(k);
  *out = load4(tile + i).w;
}
TEST_P(Emulation, CatchesMisalignedVectorsInSharedMemory) {
  float* out = device<float>(1);
  EXPECT_EQ(fault_of(reads_vector_at, 1, 4, out), "");
  EXPECT_EQ(*out, 7);
  EXPECT_NE(fault_of(reads_vector_at, 1, 2, out).find("aligned"), std::string::npos);
}

__global__ void too_much_shared_memory() { VERBATIM_SHARED_ARRAY(float, all, 12'289); }
TEST_P(Emulation, CatchesMoreSharedMemoryThanABlockMayDeclare) {
  EXPECT_NE(fault_of(too_much_shared_memory, 1).find("49168 bytes"), std::string::npos);
}

__global__ void early_exit() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
TEST_P(Emulation, CatchesBarriersThatNotAllThreadsReach) {
  EXPECT_NE(fault_of(early_exit, 64).find("1 threads have returned, others wait at the barrier"),
            std::string::npos);
  EXPECT_NE(fault_of(two_barriers, 64).find("different barriers"), std::string::npos);
  EXPECT_EQ(fault_of(two_barriers, 32), "");
}

__global__ void shuffles(unsigned mask, int source, bool lane_7_leaves, int* out) {
  const auto lane = threadIdx.x;
  if (lane_7_leaves && lane == 7) return;
  if ((mask >> lane & 1) != 0) out[lane] = __shfl_sync(mask, static_cast<int>(lane) * 10, source);
}
TEST_P(Emulation, CatchesShufflesWithInactiveLanes) {
  int* out = device<int>(32);
  EXPECT_EQ(fault_of(shuffles, 32, 0xffffffffu, 3, false, out), "");
  EXPECT_EQ(out[31], 30);
  EXPECT_EQ(fault_of(shuffles, 32, 0x0000ffffu, 15, false, out), "");
  EXPECT_EQ(out[0], 150);
  EXPECT_NE(fault_of(shuffles, 32, 0x0000ffffu, 16, false, out).find("not in the mask"),
            std::string::npos);
  const std::string left = fault_of(shuffles, 32, 0xffffffffu, 3, true, out);
  EXPECT_TRUE(left.find("names lane 7, which has returned") != std::string::npos ||
              left.find("for a lane of its warp that does not come") != std::string::npos)
      << left;
  EXPECT_NE(fault_of(shuffles, 16, 0xffffffffu, 3, false, out).find("not in the block"),
            std::string::npos);
}

__global__ void votes_in_two_places(unsigned* out) {
  out[threadIdx.x] =
      threadIdx.x < 16 ? __ballot_sync(0xffffffffu, true) : __ballot_sync(0xffffffffu, false);
}
__global__ void mask_without_caller(unsigned* out) {
  out[threadIdx.x] = __ballot_sync(0xfffffffeu, true);
}
__global__ void votes(unsigned* out) {
  const bool odd = threadIdx.x % 2 != 0;
  out[threadIdx.x] = __ballot_sync(0xffffffffu, odd) + (__any_sync(0xffffffffu, odd) != 0 ? 1 : 0) +
                     (__all_sync(0xffffffffu, odd) != 0 ? 2 : 0);
}
TEST_P(Emulation, CatchesVotesThatNotAllLanesJoin) {
  auto* out = device<unsigned>(32);
  EXPECT_EQ(fault_of(votes, 32, out), "");
  EXPECT_EQ(out[9], 0xaaaaaaabu);
  EXPECT_NE(fault_of(votes_in_two_places, 32, out).find("while other lanes of the warp wait"),
            std::string::npos);
  EXPECT_NE(fault_of(mask_without_caller, 32, out).find("leaves out the caller"),
            std::string::npos);
}

__global__ void shuffles_by_distance(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = 100 * __shfl_xor_sync(0xffffffffu, lane, 5) + __shfl_up_sync(0xffffffffu, lane, 4);
}
TEST_P(Emulation, ShufflesByDistance) {
  int* out = device<int>(32);
  launch(shuffles_by_distance, 1, 32, out);
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(out[lane], 100 * (lane ^ 5) + (lane < 4 ? lane : lane - 4));
}

__global__ void last_block_wins(int* out) { *out = static_cast<int>(blockIdx.x); }
TEST(EmulationSchedules, ARaceBetweenBlocksShowsAsADifference) {
  std::vector<int> results;
  for (const Schedule& schedule : kSchedules) {
    use(schedule);
    void* out = allocate(sizeof(int));
    launch(last_block_wins, 20, 1, static_cast<int*>(out));
    results.push_back(*static_cast<int*>(out));
    release(out);
  }
  use(kSchedules[0]);
  EXPECT_EQ(results[0], 19);
  EXPECT_EQ(results[1], 0);
  EXPECT_NE(results[2], results[3]);
}

TEST(EmulationSchedules, FreshMemoryDiffersFromScheduleToSchedule) {
  std::vector<std::uint32_t> first_words;
  for (const Schedule& schedule : kSchedules) {
    use(schedule);
    void* p = allocate(100);
    first_words.push_back(*static_cast<std::uint32_t*>(p));
    release(p);
  }
  use(kSchedules[0]);
  for (std::size_t i = 0; i < first_words.size(); ++i)
    EXPECT_EQ(first_words[i], kSchedules[i].poison);
}

__global__ void writes_at(std::ptrdiff_t i, float* x) { x[i] = 0; }
__global__ void reads_at(std::ptrdiff_t i, const float* x, float* out) { *out = x[i]; }

using EmulationDeathTest = testing::Test;
TEST(EmulationDeathTest, AnAccessOutsideOfDeviceMemoryEndsTheProcess) {
  use(kSchedules[0]);  // the guard is behind
  auto* x = static_cast<float*>(allocate(1000 * sizeof(float)));
  auto* out = static_cast<float*>(allocate(sizeof(float)));
  EXPECT_DEATH(fault_of(reads_at, 1, std::ptrdiff_t{1000}, x, out),
               "touched 0 bytes past the end of an allocation of 4000");
  EXPECT_DEATH(fault_of(writes_at, 1, std::ptrdiff_t{1005}, x),
               "touched 20 bytes past the end of an allocation of 4000");
  release(x);
  use(kSchedules[1]);  // the guard is before
  x = static_cast<float*>(allocate(1000 * sizeof(float)));
  EXPECT_DEATH(fault_of(reads_at, 1, std::ptrdiff_t{-1}, x, out),
               "touched 4 bytes before the start of an allocation of 4000");
  use(kSchedules[0]);
  release(x);
  release(out);
}

TEST(EmulationMemory, AWriteIntoTheSlackOfAnAllocationIsFound) {
  auto* x = static_cast<float*>(allocate(5 * sizeof(float)));
  EXPECT_NE(fault_of(writes_at, 1, std::ptrdiff_t{5}, x).find("something wrote 20 bytes from"),
            std::string::npos);
  std::memset(x + 5, 0xa5, sizeof(float));  // mended, so that it can go
  EXPECT_NE(fault_of(writes_at, 1, std::ptrdiff_t{-1}, x).find("something wrote -4 bytes from"),
            std::string::npos);
  std::memset(x - 1, 0xa5, sizeof(float));
  release(x);
}

TEST(EmulationMemory, CopiesThatDoNotFitAreRefused) {
  void* x = allocate(16);
  char bytes[17] = {};
  EXPECT_EQ(cudaMemcpy(x, bytes, 16, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(x, bytes, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(bytes, bytes, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  release(x);
  EXPECT_THROW(release(bytes), Fault);
}

TEST(EmulationMemory, AGridThatCudaRefusesIsAFault) {
  EXPECT_THROW(launch(two_writers, dim3(0), dim3(1)), Fault);
  EXPECT_THROW(launch(two_writers, dim3(1, 65'536), dim3(1)), Fault);
  EXPECT_THROW(launch(two_writers, dim3(1), dim3(1025)), Fault);
}

}  // namespace
}  // namespace verbatim::emulation
