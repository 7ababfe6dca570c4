// How often `verbatim probe --series` raises its alarm, on endpoints made for it: at honest ones (false positives), and at
// ones that changed (power). The table in docs/replay.md is what this prints.
//
//   replay_alarms_bench [experiments]      each: a baseline, then a run, compared at 0.01

#include "replay/proportion.hpp"
#include "replay/two_sample.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using verbatim::replay::SampleGroup;

constexpr double kAlpha = 0.01;
constexpr std::size_t kCharacters = 300;

std::string words(std::mt19937_64& random, std::size_t characters) {
  static constexpr std::array kWords = {"the", "log", "of",   "leaves", "is",   "signed",
                                        "and", "a",   "tree", "holds",  "each", "root"};
  std::string text;
  while (text.size() < characters) text += std::string(kWords[random() % kWords.size()]) + " ";
  text.resize(characters);
  return text;
}

/// One question, and what may be answered to it. The usual answer, the same but for what follows a fork half way, and what
/// another model says.
struct Question {
  std::string usual, forked, other;
  std::array<std::string, 6> sampled;

  explicit Question(std::mt19937_64& random)
      : usual(words(random, kCharacters)),
        forked(usual.substr(0, kCharacters / 2) + words(random, kCharacters / 2)),
        other(words(random, kCharacters)) {
    for (std::string& each : sampled) each = words(random, kCharacters);
  }
};

using Answer = std::function<const std::string&(const Question&, std::mt19937_64&)>;

/// Gives `rarely` in a share of the answers, and the usual one else.
Answer mixed(double share, std::string Question::*rarely) {
  return [share, rarely](const Question& question, std::mt19937_64& random) -> const std::string& {
    return static_cast<double>(random() >> 11) * 0x1p-53 < share ? question.*rarely
                                                                 : question.usual;
  };
}

struct Endpoint {
  const char* name;
  Answer before, now;
};

/// The share of experiments with an alarm.
verbatim::replay::Proportion alarms(const Endpoint& endpoint, std::size_t questions,
                                    std::size_t count, std::size_t experiments) {
  std::size_t alarmed = 0;
  for (std::size_t i = 0; i < experiments; ++i) {
    std::mt19937_64 random(1000 * i + questions);
    std::vector<SampleGroup> groups;
    for (std::size_t q = 0; q < questions; ++q) {
      const Question question(random);
      SampleGroup group;
      for (std::size_t n = 0; n < count; ++n) {
        group.before.push_back(endpoint.before(question, random));
        group.now.push_back(endpoint.now(question, random));
      }
      groups.push_back(std::move(group));
    }
    verbatim::replay::TwoSampleOptions options;
    options.permutations = 999;
    options.seed = i;
    alarmed += two_sample_test(groups, options).p_value <= kAlpha ? 1 : 0;
  }
  return verbatim::replay::wilson(alarmed, experiments);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t experiments = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const Answer usual = mixed(0, &Question::forked);
  const Answer sampled = [](const Question& question,
                            std::mt19937_64& random) -> const std::string& {
    return question.sampled[random() % question.sampled.size()];
  };
  const std::array endpoints = {
      Endpoint{"honest, always the same answer", usual, usual},
      Endpoint{"honest, 10 % of the answers fork, then as now", mixed(0.1, &Question::forked),
               mixed(0.1, &Question::forked)},
      Endpoint{"honest, one of six answers at random", sampled, sampled},
      Endpoint{"10 % of the answers fork now", usual, mixed(0.1, &Question::forked)},
      Endpoint{"30 % of the answers fork now", usual, mixed(0.3, &Question::forked)},
      Endpoint{"10 % forked, 30 % fork now", mixed(0.1, &Question::forked),
               mixed(0.3, &Question::forked)},
      Endpoint{"another model gives 10 % of the answers", usual, mixed(0.1, &Question::other)},
      Endpoint{"another model", usual, mixed(1, &Question::other)},
  };
  static constexpr std::array<std::pair<std::size_t, std::size_t>, 4> kSizes = {
      {{1, 30}, {1, 100}, {5, 30}, {20, 10}}};
  std::printf("%zu experiments each, false-positive rate %.2f\n\n| endpoint |", experiments,
              kAlpha);
  for (const auto& [questions, count] : kSizes) std::printf(" %zu x %zu |", questions, count);
  std::printf("\n|---|---|---|---|---|\n");
  for (const Endpoint& endpoint : endpoints) {
    std::printf("| %s |", endpoint.name);
    for (const auto& [questions, count] : kSizes) {
      const auto share = alarms(endpoint, questions, count, experiments);
      std::printf(" %.1f %% (%.1f to %.1f) |", 100 * share.share, 100 * share.low,
                  100 * share.high);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
