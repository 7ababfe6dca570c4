#include "replay/selection.hpp"

#include "tests/replay/recorded_world.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbatim {
namespace {

class Selection : public testing::Test {
 protected:
  test::RecordedWorld world_{test::fresh_dir()};
};

TEST_F(Selection, TakesEverythingOldestFirst) {
  std::vector<Uuid> made;
  for (int i = 0; i < 5; ++i) made.push_back(world_.open_request());
  EXPECT_EQ(replay::select(*world_.reader(), {}).value(), made);
}

TEST_F(Selection, ASampleIsTheSameForEveryoneAndInOrder) {
  std::vector<Uuid> made;
  for (int i = 0; i < 40; ++i) made.push_back(world_.open_request());
  replay::Selection selection;
  selection.sample = 7;
  const auto first = replay::select(*world_.reader(), selection).value();
  const auto second = replay::select(*world_.reader(), selection).value();
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.size(), 7U);
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, std::vector<Uuid>(made.begin(), made.begin() + 7));
}

TEST_F(Selection, RefusesWhatIsNoIdAndNoTime) {
  replay::Selection bad_id;
  bad_id.ids = {"7"};
  EXPECT_EQ(replay::select(*world_.reader(), bad_id).error().code, Errc::invalid_input);
  replay::Selection bad_time;
  bad_time.since = "yesterday";
  EXPECT_EQ(replay::select(*world_.reader(), bad_time).error().code, Errc::invalid_input);
}

}  // namespace
}  // namespace verbatim
