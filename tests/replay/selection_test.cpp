#include "replay/selection.hpp"

#include "audit/note.hpp"
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
  EXPECT_EQ(replay::select(*world_.reader(), {}).value().ids, made);
}

TEST_F(Selection, ASampleIsTheSameForEveryoneAndInOrder) {
  std::vector<Uuid> made;
  for (int i = 0; i < 40; ++i) made.push_back(world_.open_request());
  replay::Selection selection;
  selection.sample = 7;
  const auto design = replay::select(*world_.reader(), selection).value();
  EXPECT_EQ(design.matching, 40U);
  EXPECT_EQ(design.tree_size, world_.reader()->size().value());
  const auto first = design.ids;
  const auto second = replay::select(*world_.reader(), selection).value().ids;
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.size(), 7U);
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, std::vector<Uuid>(made.begin(), made.begin() + 7));
}

TEST_F(Selection, ByAKeptCheckpointTheSameRecordsAreDrawnWhenTheLogHasGrown) {
  for (int i = 0; i < 20; ++i) world_.open_request();
  replay::Selection selection;
  selection.sample = 5;
  selection.checkpoint = world_.reader()->checkpoint().value();
  const auto first = replay::select(*world_.reader(), selection).value();
  for (int i = 0; i < 20; ++i) world_.open_request();
  const auto second = replay::select(*world_.reader(), selection).value();
  EXPECT_EQ(first.ids, second.ids);
  EXPECT_EQ(second.matching, 20U);
  selection.sample = 0;
  EXPECT_EQ(replay::select(*world_.reader(), selection).value().ids.size(), 20U);
}

TEST_F(Selection, WhatWasDrawnIsDrawnAgainByTheCheckpointThatItNames) {
  for (int i = 0; i < 20; ++i) world_.open_request();
  replay::Selection selection;
  selection.sample = 5;
  const auto first = replay::select(*world_.reader(), selection).value();
  for (int i = 0; i < 20; ++i) world_.open_request();
  selection.checkpoint = first.checkpoint;
  EXPECT_EQ(replay::select(*world_.reader(), selection).value().ids, first.ids);
  // Another signature on the same checkpoint is no other draw.
  selection.checkpoint += audit::signature_line("witness.example", 7, as_bytes("not checked here"));
  EXPECT_EQ(replay::select(*world_.reader(), selection).value().ids, first.ids);
}

TEST_F(Selection, ANamedRecordIsSelectedOnce) {
  const Uuid first = world_.open_request(), second = world_.open_request();
  replay::Selection selection;
  selection.ids = {second.str(), first.str(), second.str()};
  EXPECT_EQ(replay::select(*world_.reader(), selection).value().ids,
            (std::vector<Uuid>{first, second}));
}

TEST_F(Selection, ACheckpointOfAnotherLogIsRefused) {
  test::RecordedWorld other(test::fresh_dir("-other"));
  replay::Selection selection;
  selection.checkpoint = other.reader()->checkpoint().value();
  EXPECT_EQ(replay::select(*world_.reader(), selection).error().code, Errc::invalid_input);
}

TEST_F(Selection, TheDesignIsStated) {
  for (int i = 0; i < 9; ++i) world_.open_request();
  replay::Selection selection;
  selection.model = "demo";
  selection.sample = 4;
  const auto design = replay::select(*world_.reader(), selection).value();
  EXPECT_EQ(replay::design_text(selection, design).substr(0, 52),
            "4 of the 9 exchanges that asked for demo in the log ");
}

TEST_F(Selection, ANamedRecordThatIsNotThereIsFoundBeforeAnythingIsDone) {
  replay::Selection selection;
  selection.ids = {"0193a5e0-7c1a-7b3e-9d2f-0123456789ab"};
  EXPECT_EQ(replay::select(*world_.reader(), selection).error().code, Errc::not_found);
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
