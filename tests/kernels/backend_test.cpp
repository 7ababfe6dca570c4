// Backend names, the floating-point unit's state, the thread pool.

#include "kernels/thread_pool.hpp"
#include "support.hpp"

#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace verbatim::kernels::test {
namespace {

TEST(Backends, NamesReadBack) {
  for (const Backend backend : supported_backends())
    EXPECT_EQ(parse_backend(name(backend)).value(), backend);
  EXPECT_EQ(parse_backend("auto").value(), best_backend());
  EXPECT_EQ(supported_backends().front(), Backend::scalar);
}

TEST(Backends, UnknownNamesAreRefused) {
  for (const char* text : {"", "AVX2", "neon", "scalar "}) {
    const auto result = parse_backend(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, Errc::invalid_input);
  }
}

TEST(FloatingPoint, FlushedSubnormalsAreNoticedAndPutRight) {
  const unsigned saved = _mm_getcsr();
  EXPECT_TRUE(floating_point_is_exact());
  for (const unsigned bit :
       {0x8000u, 0x0040u, 0x2000u}) {  // flush to zero, denormals are zero, round down
    _mm_setcsr(saved | bit);
    EXPECT_FALSE(floating_point_is_exact());
    make_floating_point_exact();
    EXPECT_TRUE(floating_point_is_exact());
  }
  _mm_setcsr(saved);
}

TEST(ThreadPools, EveryTaskRunsOnceInContiguousRanges) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (std::size_t tasks = 0; tasks < 40; ++tasks) {
      std::vector<std::atomic<int>> runs(tasks);
      std::atomic<int> ranges = 0;
      pool.run(tasks, [&](std::size_t begin, std::size_t end) {
        ++ranges;
        for (std::size_t i = begin; i < end; ++i) ++runs[i];
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
      EXPECT_LE(ranges, threads);
    }
  }
}

TEST(ThreadPools, RoundsFollowEachOtherAtOnceOrAfterTheWorkersFellAsleep) {
  ThreadPool pool(3);
  std::size_t runs = 0;
  for (int round = 0; round < 3000; ++round) {
    std::size_t mine[3] = {0, 0, 0};  // no atomics: what a round wrote must be seen after it
    pool.run(3, [&](std::size_t begin, std::size_t) { ++mine[begin]; });
    runs += mine[0] + mine[1] + mine[2];
    if (round % 300 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(runs, 9000u);
  // And a caller that has to sleep until a worker is done.
  std::atomic<int> ended = 0;
  pool.run(3, [&](std::size_t begin, std::size_t) {
    if (begin > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++ended;
  });
  EXPECT_EQ(ended, 3);
}

TEST(ThreadPools, WorkersKeepSubnormals) {
  // A worker inherits the state of the thread that makes it: the pool must not.
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040u);
  ThreadPool pool(4);
  _mm_setcsr(saved);
  std::atomic<int> exact = 0, all = 0;
  pool.run(4, [&](std::size_t, std::size_t) {
    ++all;
    if (floating_point_is_exact()) ++exact;
  });
  EXPECT_EQ(all, 4);
  EXPECT_EQ(exact, 4);
}

}  // namespace
}  // namespace verbatim::kernels::test
