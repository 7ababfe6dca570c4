#include "replay/two_sample.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string_view>
#include <utility>

namespace verbatim::replay {

namespace {

/// The mean over the groups may be rounded; what differs by less counts as equal.
constexpr double kRounding = 1e-9;

/// The first characters of valid UTF-8. What is no UTF-8 is taken byte by byte.
std::u32string characters_of(std::string_view utf8, std::size_t characters_max) {
  std::u32string characters;
  for (std::size_t at = 0; at < utf8.size() && characters.size() < characters_max;) {
    char32_t value = static_cast<unsigned char>(utf8[at++]);
    for (; at < utf8.size() && (static_cast<unsigned char>(utf8[at]) & 0xC0) == 0x80; ++at) {
      value = (value << 8) | static_cast<unsigned char>(utf8[at]);
    }
    characters.push_back(value);
  }
  return characters;
}

/// A whole number below `bound`, each as likely: std::uniform_int_distribution differs between libraries.
std::size_t below(std::mt19937_64& random, std::size_t bound) {
  const std::uint64_t reject_from = UINT64_MAX - UINT64_MAX % bound;
  for (;;) {
    const std::uint64_t drawn = random();
    if (drawn < reject_from) return static_cast<std::size_t>(drawn % bound);
  }
}

/// One group: its different answers, how alike each two are, and which answer each is.
class Group {
 public:
  Group(const SampleGroup& group, std::size_t characters_max)
      : before_(group.before.size()), now_(group.now.size()) {
    std::map<std::string_view, std::size_t> places;
    for (const auto* side : {&group.before, &group.now}) {
      for (const std::string& text : *side) {
        answers_.push_back(places.emplace(text, places.size()).first->second);
      }
    }
    std::vector<std::u32string> texts(places.size());
    bool cut = false;
    for (const auto& [text, place] : places) {
      texts[place] = characters_of(text, characters_max + 1);
      cut = cut || texts[place].size() > characters_max;
      texts[place].resize(std::min(texts[place].size(), characters_max));
    }
    fill_kernel(texts, cut);
  }

  /// MMD^2 with the answers as they lie now. Summed in whole numbers, which doubles hold exactly, so that equal
  /// distributions are at 0, and scaled at the end.
  [[nodiscard]] double mmd2() const {
    const auto before = static_cast<double>(before_), now = static_cast<double>(now_);
    std::vector<double> weights(kernel_.size());
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      weights[answers_[i]] += i < before_ ? now : -before;
    }
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      double row = 0;
      for (std::size_t j = 0; j < weights.size(); ++j) row += weights[j] * kernel_[i][j];
      sum += weights[i] * row;
    }
    return std::max(sum, 0.0) / (before * before * now * now * static_cast<double>(length_));
  }

  void permute(std::mt19937_64& random) {
    for (std::size_t left = answers_.size(); left > 1; --left) {
      std::swap(answers_[left - 1], answers_[below(random, left)]);
    }
  }

  [[nodiscard]] bool all_equal() const { return kernel_.size() < 2; }

 private:
  /// In places that are the same. Of texts that were cut, being the same as a whole is worth as many places again.
  void fill_kernel(const std::vector<std::u32string>& texts, bool cut) {
    for (const std::u32string& text : texts) length_ = std::max(length_, text.size());
    const std::size_t compared = length_;
    if (cut) length_ *= 2;
    kernel_.assign(texts.size(), std::vector<double>(texts.size(), static_cast<double>(length_)));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const std::size_t common = std::min(texts[i].size(), texts[j].size());
        // Both have ended from the end of the longer on.
        std::size_t same = compared - std::max(texts[i].size(), texts[j].size());
        for (std::size_t at = 0; at < common; ++at) same += texts[i][at] == texts[j][at] ? 1 : 0;
        kernel_[i][j] = kernel_[j][i] = static_cast<double>(same);
      }
    }
  }

  std::size_t before_, now_;
  std::vector<std::size_t> answers_;         // before, then now: which of the different ones
  std::size_t length_ = 1;                   // the value of k = 1, in places
  std::vector<std::vector<double>> kernel_;  // (different, different): k of two, in places
};

double mean_mmd2(const std::vector<Group>& groups) {
  double sum = 0;
  for (const Group& group : groups) sum += group.mmd2();
  return groups.empty() ? 0 : sum / static_cast<double>(groups.size());
}

}  // namespace

TwoSampleResult two_sample_test(const std::vector<SampleGroup>& groups,
                                const TwoSampleOptions& options) {
  TwoSampleResult result;
  std::vector<Group> compared;
  for (const SampleGroup& group : groups) {
    if (group.before.empty() || group.now.empty()) continue;
    result.before += group.before.size();
    result.now += group.now.size();
    compared.emplace_back(group, options.characters_max);
  }
  result.mmd2 = mean_mmd2(compared);
  // Where all answers are equal, every permutation is as far apart as what was seen.
  if (std::all_of(compared.begin(), compared.end(), [](const Group& g) { return g.all_equal(); })) {
    return result;
  }
  std::mt19937_64 random(options.seed);
  std::size_t as_far = 0;
  for (std::size_t i = 0; i < options.permutations; ++i) {
    for (Group& group : compared) group.permute(random);
    as_far += mean_mmd2(compared) >= result.mmd2 - kRounding ? 1 : 0;
  }
  result.p_value = static_cast<double>(1 + as_far) / static_cast<double>(1 + options.permutations);
  return result;
}

}  // namespace verbatim::replay
