// The picture of where answers part: its labels stand where no line runs.

#include "replay/charts.hpp"

#include <gtest/gtest.h>

namespace verbatim::replay {
namespace {

TEST(ProbeTree, AForkBelowTheOneBeforeHasItsLabelBelow) {
  std::vector<AnswerText> answers;
  for (const char* text : {"abc1", "abc2", "xy1", "xy2"}) answers.push_back({text, "", {}, "", ""});
  // The leaves are at 24, 62, 100 and 138, the forks at 43 and 119, the first one between them at 81.
  const std::string tree = fork_tree(cluster_answers(answers)).str();
  const auto label_of = [&](const std::string& name) {
    const std::size_t end = tree.find(name);
    const std::size_t begin = tree.rfind("<text", end);
    return begin == std::string::npos ? "" : tree.substr(begin, end - begin);
  };
  EXPECT_NE(label_of("char 0<").find("y=\"72.0\""), std::string::npos) << tree;
  EXPECT_NE(label_of("char 3<").find("y=\"34.0\""), std::string::npos) << tree;
  EXPECT_NE(label_of("char 2<").find("y=\"137.0\""), std::string::npos) << tree;
}

}  // namespace
}  // namespace verbatim::replay
