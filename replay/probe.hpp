#pragma once
// The experiment of asking one question many times: are the answers the same?

#include "gateway/endpoint_client.hpp"
#include "replay/clusters.hpp"
#include "replay/proportion.hpp"
#include "schema/canonical_json.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

struct ProbeOptions {
  gateway::EndpointOptions endpoint;
  gateway::Api api = gateway::Api::openai_chat;
  std::string model;
  std::string prompt;  ///< a user's message; "" where a request is given
  std::string
      request;  ///< a request's body, sent as it is but for the members that docs/replay.md names
  std::string api_key;                         ///< sent as the API wants it, and found nowhere else
  std::size_t count = 30;                      ///< questions a phase
  std::vector<std::size_t> concurrency = {1};  ///< one phase each
  std::size_t neighbours = 0;  ///< then each phase again among so many other requests
  std::uint64_t seed = 1;      ///< of the neighbours' prompts
  std::size_t max_tokens = 256, logprobs = 0;
};

/// The same question, `count` times, under the same load.
struct ProbePhase {
  std::size_t concurrency = 1, neighbours = 0;  ///< at most so many at once, as it was told
  std::size_t asked = 0, neighbours_answered = 0, neighbours_failed = 0;
  std::vector<std::size_t> answers;  ///< indices into ProbeResult::answers
  std::size_t distinct = 0;
  Proportion identical;  ///< answers equal to the most frequent one of all phases
  /// Of the two-sample test against the first phase. Absent for the first itself, for a phase without answers, and
  /// where there are so many different answers that load is not what makes them differ.
  std::optional<double> p_value;

  /// So many questions there were at once at most.
  [[nodiscard]] std::size_t at_once() const { return std::min(concurrency, asked); }
};

struct ProbeFailure {
  std::size_t count = 0;
  std::string message;  ///< of the first
};

struct ProbeAnswer {
  AnswerText text;
  std::size_t phase = 0;
  std::int64_t total_us = 0;
  bool cache_hit = false;  ///< a gateway of ours said that it repeated an earlier answer
};

struct ProbeResult {
  std::string url, api, model, request;
  std::uint64_t seed = 0;
  std::size_t asked = 0;
  bool reached = false;              ///< a whole HTTP answer came, of whatever status
  std::vector<ProbeAnswer> answers;  ///< in the order in which they were asked
  std::vector<ProbePhase> phases;
  Clustering clustering;  ///< over all answers
  Proportion identical;   ///< answers equal to the most frequent one
  /// By kind: `http_429`, `timeout`, `connect`, ... as docs/replay.md lists them.
  std::map<std::string, ProbeFailure> failures;
  /// How many answers told which. Those that tell none are in none.
  std::map<std::string, std::size_t> fingerprints, models, finish_reasons;
};

/// How many answers of a question under a load are compared with how many.
struct CountsCompared {
  std::size_t before = 0, now = 0;
};
/// The smallest p-value that the test of so many answers can give: that of answers which were all alike, and are all
/// replaced by another one.
[[nodiscard]] double smallest_p_value(const std::vector<CountsCompared>& groups,
                                      std::size_t permutations);

/// Does the load change the answers? By a two-sample test of each phase against the first.
struct LoadFinding {
  std::size_t compared = 0;  ///< phases that were compared
  double limit =
      0;  ///< a p_value of at most this is a difference: kLoadAlpha / compared (Bonferroni)
  bool differs = false;
  /// So few answers are compared, or under so many loads, that no p_value of at most the limit can come.
  bool undecided = false;
};
/// The chance that any phase is called different of an endpoint that load does not change.
inline constexpr double kLoadAlpha = 0.01;
[[nodiscard]] LoadFinding load_finding(const ProbeResult& result);

/// What probe() would ask, under which loads, with no answer yet. `invalid_input` as probe() gives it.
[[nodiscard]] Result<ProbeResult> planned_probe(const ProbeOptions& options);

/// Asks. `invalid_input`: the request is no JSON object, no model is named, the key cannot be sent. An endpoint that
/// does not answer is a result. After five failures to connect, with no answer yet, it asks no more.
/// `on_progress` is called after each answer with how many have come, of how many.
[[nodiscard]] Result<ProbeResult> probe(
    const ProbeOptions& options, const Clock& clock,
    const std::function<void(std::size_t, std::size_t)>& on_progress);

/// [{`name`: ..., "count": n}, ...]
[[nodiscard]] OrderedJson counts_json(const std::map<std::string, std::size_t>& counts,
                                      const char* name);
/// As `verbatim probe --json` prints it.
[[nodiscard]] OrderedJson probe_json(const ProbeResult& result);

/// One line an answer, RFC 4180: phase, answer, cluster, sha256, characters, first_fork_char, total_us.
[[nodiscard]] std::string probe_csv(const ProbeResult& result);

}  // namespace verbatim::replay
