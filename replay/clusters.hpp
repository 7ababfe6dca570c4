#pragma once
// Which answers to one question are equal, and where the others part from each other.

#include "replay/answer_text.hpp"
#include "schema/digest.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::replay {

/// Answers with the same text.
struct Cluster {
  Digest sha256;  ///< of the text
  std::string text;
  std::vector<std::size_t> answers;  ///< their indices, ascending
  /// Characters (Unicode code points) that it has in common with the first cluster; none for that one itself.
  std::optional<std::size_t> first_fork_char;
};

/// The token that a branch begins in, of the branch's first answer.
struct BranchToken {
  std::size_t index = 0;
  AnswerToken token;
};

struct ForkBranch {
  std::string text;                   ///< from the fork to the next fork or the end
  bool ends = false;                  ///< the answers of this branch end at the fork
  std::size_t count = 0;              ///< answers
  std::vector<std::size_t> clusters;  ///< indices, ascending
  std::optional<BranchToken> token;   ///< where log-probabilities were given
};

/// A place where answers that agreed so far go on differently.
struct Fork {
  std::size_t character = 0;  ///< code points before it
  std::size_t byte = 0;
  std::size_t count = 0;  ///< answers that come by
  /// The last of what they have in common, after an ellipsis if that is not all.
  std::string before;
  std::vector<ForkBranch> branches;  ///< most answers first
};

struct Clustering {
  std::vector<Cluster> clusters;  ///< largest first; of equal size, the earlier answer first
  std::vector<Fork> forks;        ///< by position, those of larger clusters first
};

/// Texts are valid UTF-8, and no fork is inside a character. At most 1,000 forks.
[[nodiscard]] Clustering cluster_answers(const std::vector<AnswerText>& answers);

/// Unicode code points in valid UTF-8.
[[nodiscard]] std::size_t characters(std::string_view utf8);

}  // namespace verbatim::replay
