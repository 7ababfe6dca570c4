// Routing to experts and the sum of what they say, against section 6 of the profile written again with the CPU's operators.

#include "kernels/elementary/elementary.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/experts/experts_cuda.hpp"
#include "kernels/logits/logits.hpp"
#include "kernels/matmul/matmul.hpp"
#include "tests/gpu/device.hpp"

#include <limits>

namespace verbatim::kernels::test {
namespace {

std::vector<float> softmax(const std::vector<float>& x) {
  const float max = *std::max_element(x.begin(), x.end());
  std::vector<float> e;
  for (const float value : x) e.push_back(exp_f32(value - max));
  const float sum = kernels::sum(e.data(), e.size());
  for (float& value : e) value = value / sum;
  return e;
}

using Experts = OnDevice;
INSTANTIATE_TEST_SUITE_P(Runs, Experts, testing::Range<std::size_t>(0, kRuns));

TEST_P(Experts, RoutesByRankWithBothKindsOfWeights) {
  for (const std::size_t experts : {1, 8, 33, 300}) {
    for (const std::size_t per_row : {std::size_t{1}, std::size_t{8}, std::size_t{300}}) {
      if (per_row > experts) continue;
      for (const bool renormalize : {false, true}) {
        const std::size_t rows = 5;
        std::vector<float> logits = random_floats(rows * experts, experts);
        for (std::size_t i = 0; i < logits.size(); ++i)  // ties in some rows
          logits[i] = i / experts % 2 != 0 ? std::round(logits[i] * 2) : logits[i] * 5;
        logits[3 * experts] = std::numeric_limits<float>::infinity();
        const std::size_t slots = rows * per_row;
        auto* chosen = memory_.fresh<std::int32_t>(slots);
        float* weights = memory_.fresh<float>(slots);
        auto* range = memory_.upload(std::vector<std::uint8_t>(rows));
        cuda::RoutingArgs args;
        args.rows = rows;
        args.experts = experts;
        args.per_row = per_row;
        args.renormalize = renormalize;
        args.logits = memory_.upload(logits);
        args.chosen = chosen;
        args.weights = weights;
        args.range = reinterpret_cast<bool*>(range);
        cuda::route(args, nullptr);
        const auto found = memory_.download(chosen, slots);
        const auto found_weights = memory_.download(weights, slots);
        EXPECT_EQ(memory_.download(range, rows), (std::vector<std::uint8_t>{0, 0, 0, 1, 0}));
        for (std::size_t r = 0; r < rows; ++r) {
          const std::vector<float> row(
              logits.begin() + static_cast<std::ptrdiff_t>(r * experts),
              logits.begin() + static_cast<std::ptrdiff_t>((r + 1) * experts));
          const auto ids = top_ids(row, per_row);
          std::vector<float> of_chosen;
          for (const auto id : ids) of_chosen.push_back(row[static_cast<std::size_t>(id)]);
          const std::vector<float> expected = softmax(renormalize && r != 3 ? of_chosen : row);
          for (std::size_t i = 0; i < per_row; ++i) {
            const std::size_t slot = r * per_row + i;
            EXPECT_EQ(found[slot], r == 3 ? -1 : ids[i]);
            if (r == 3) continue;
            EXPECT_TRUE(same_bits(found_weights[slot],
                                  expected[renormalize ? i : static_cast<std::size_t>(ids[i])]))
                << experts << " " << per_row << " " << renormalize;
          }
        }
        memory_.free();
      }
    }
  }
}

TEST_P(Experts, GroupsHoldEachExpertsSlotsInRisingOrder) {
  for (const std::size_t slot_count : {1, 31, 32, 33, 200}) {
    const std::size_t experts = 7;
    Random random(slot_count);
    std::vector<std::int32_t> chosen(slot_count);
    for (auto& e : chosen) e = static_cast<std::int32_t>(random.below(experts)) - 1;  // none has 6
    std::vector<std::uint32_t> first = {0}, slots;
    for (std::size_t e = 0; e < experts; ++e) {
      for (std::size_t s = 0; s < slot_count; ++s) {
        if (chosen[s] == static_cast<std::int32_t>(e))
          slots.push_back(static_cast<std::uint32_t>(s));
      }
      first.push_back(static_cast<std::uint32_t>(slots.size()));
    }
    auto* device_first = memory_.fresh<std::uint32_t>(experts + 1);
    auto* device_slots = memory_.fresh<std::uint32_t>(slot_count);
    cuda::group_by_expert(memory_.upload(chosen), slot_count, experts, device_first, device_slots,
                          nullptr);
    EXPECT_EQ(memory_.download(device_first, experts + 1), first);
    EXPECT_EQ(memory_.download(device_slots, slots.size()), slots);
  }
}

TEST_P(Experts, BranchesAreAddedInRankOrderAndUnroutedRowsAreZero) {
  const std::size_t rows = 4, per_row = 3, cols = 300;
  const std::vector<float> weights = random_floats(rows * per_row, 1);
  const std::vector<float> branches = random_floats(rows * per_row * cols, 2, Kind::adversarial);
  std::vector<std::int32_t> chosen(rows * per_row, 2);
  for (std::size_t i = 0; i < per_row; ++i) chosen[2 * per_row + i] = -1;
  std::vector<float> expected(rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    if (r == 2) continue;
    for (std::size_t rank = 0; rank < per_row; ++rank)
      fma_in_place(best_backend(), expected.data() + r * cols, weights[r * per_row + rank],
                   branches.data() + (r * per_row + rank) * cols, cols);
  }
  float* out = memory_.fresh<float>(rows * cols);
  cuda::mix({rows, per_row, cols, memory_.upload(chosen), memory_.upload(weights),
             memory_.upload(branches), out},
            nullptr);
  EXPECT_TRUE(same_bits(memory_.download(out, rows * cols), expected));
}

}  // namespace
}  // namespace verbatim::kernels::test
