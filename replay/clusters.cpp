#include "replay/clusters.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace verbatim::replay {

namespace {

constexpr std::size_t kBeforeBytes = 48;  // of common text shown before a fork
constexpr std::size_t kForksMax = 1000;   // of nested forks; a hostile endpoint can make many

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The start of the character that `at` is in.
std::size_t character_start(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && continues_character(text[at])) --at;
  return at;
}

/// Bytes of the longest common prefix of whole characters.
std::size_t common_prefix(std::string_view a, std::string_view b, std::size_t from = 0) {
  std::size_t at = from;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  return std::min(character_start(a, at), character_start(b, at));
}

/// One character from `at`, or "" at the end.
std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t end = std::min(at + 1, text.size());
  while (end < text.size() && continues_character(text[end])) ++end;
  return text.substr(at, end - at);
}

std::vector<Cluster> clusters_of(const std::vector<AnswerText>& answers) {
  std::map<std::string_view, std::vector<std::size_t>> by_text;
  for (std::size_t i = 0; i < answers.size(); ++i) by_text[answers[i].text].push_back(i);
  std::vector<Cluster> clusters;
  for (auto& [text, indices] : by_text) {
    Cluster cluster;
    cluster.sha256 = sha256(text);
    cluster.text = text;
    cluster.answers = std::move(indices);
    clusters.push_back(std::move(cluster));
  }
  std::sort(clusters.begin(), clusters.end(), [](const Cluster& a, const Cluster& b) {
    if (a.answers.size() != b.answers.size()) return a.answers.size() > b.answers.size();
    return a.answers.front() < b.answers.front();
  });
  for (std::size_t i = 1; i < clusters.size(); ++i) {
    const std::size_t common = common_prefix(clusters[0].text, clusters[i].text);
    clusters[i].first_fork_char = characters(std::string_view(clusters[0].text).substr(0, common));
  }
  return clusters;
}

std::optional<BranchToken> token_at(const AnswerText& answer, std::size_t byte) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    end += answer.tokens[i].text.size();
    if (end > byte) return BranchToken{i, answer.tokens[i]};
  }
  return std::nullopt;
}

/// Clusters that agree up to byte `from`, by index in the order of their texts.
struct Group {
  std::vector<std::size_t> clusters;
  std::size_t from = 0;
};

class ForkFinder {
 public:
  ForkFinder(const std::vector<AnswerText>& answers, const std::vector<Cluster>& clusters)
      : answers_(answers), clusters_(clusters) {}

  std::vector<Fork> find() {
    Group all;
    all.clusters.resize(clusters_.size());
    std::iota(all.clusters.begin(), all.clusters.end(), 0);
    std::sort(all.clusters.begin(), all.clusters.end(),
              [&](std::size_t a, std::size_t b) { return clusters_[a].text < clusters_[b].text; });
    std::vector<Fork> forks;
    std::vector<Group> waiting = {std::move(all)};
    while (!waiting.empty() && forks.size() < kForksMax) {
      const Group group = std::move(waiting.back());
      waiting.pop_back();
      if (group.clusters.size() > 1) forks.push_back(split(group, waiting));
    }
    std::stable_sort(forks.begin(), forks.end(), [](const Fork& a, const Fork& b) {
      return std::pair(a.character, b.count) < std::pair(b.character, a.count);
    });
    return forks;
  }

 private:
  Fork split(const Group& group, std::vector<Group>& waiting) const {
    const std::string_view text = clusters_[group.clusters.front()].text;
    // In sorted texts the first and the last have least in common.
    const std::size_t at = common_prefix(text, clusters_[group.clusters.back()].text, group.from);
    Fork fork;
    fork.byte = at;
    fork.character = characters(text.substr(0, at));
    const std::size_t begin =
        character_start(text.substr(0, at), at > kBeforeBytes ? at - kBeforeBytes : 0);
    fork.before = text.substr(begin, at - begin);
    for (std::size_t i = 0; i < group.clusters.size();) {
      Group branch{{}, at};
      const std::string_view next = character_at(clusters_[group.clusters[i]].text, at);
      for (;
           i < group.clusters.size() && character_at(clusters_[group.clusters[i]].text, at) == next;
           ++i) {
        branch.clusters.push_back(group.clusters[i]);
      }
      fork.branches.push_back(describe(branch));
      fork.count += fork.branches.back().count;
      waiting.push_back(std::move(branch));
    }
    std::stable_sort(fork.branches.begin(), fork.branches.end(),
                     [](const ForkBranch& a, const ForkBranch& b) { return a.count > b.count; });
    return fork;
  }

  ForkBranch describe(const Group& group) const {
    ForkBranch branch;
    const std::string_view first = clusters_[group.clusters.front()].text;
    const std::size_t end =
        group.clusters.size() == 1
            ? first.size()
            : common_prefix(first, clusters_[group.clusters.back()].text, group.from);
    branch.text = first.substr(group.from, end - group.from);
    branch.ends = first.size() == group.from;
    branch.clusters = group.clusters;
    std::sort(branch.clusters.begin(), branch.clusters.end());
    for (const std::size_t cluster : branch.clusters) {
      branch.count += clusters_[cluster].answers.size();
    }
    const std::size_t answer = clusters_[branch.clusters.front()].answers.front();
    branch.token = token_at(answers_[answer], group.from);
    return branch;
  }

  const std::vector<AnswerText>& answers_;
  const std::vector<Cluster>& clusters_;
};

}  // namespace

Clustering cluster_answers(const std::vector<AnswerText>& answers) {
  Clustering result;
  result.clusters = clusters_of(answers);
  result.forks = ForkFinder(answers, result.clusters).find();
  return result;
}

std::size_t characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char byte) { return !continues_character(byte); }));
}

}  // namespace verbatim::replay
