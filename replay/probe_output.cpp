// A probe's result as JSON and as CSV.

#include "replay/probe.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

OrderedJson proportion_json(const Proportion& proportion) {
  return {{"count", proportion.count},
          {"of", proportion.of},
          {"share", proportion.share},
          {"low", proportion.low},
          {"high", proportion.high},
          {"confidence", 0.95},
          {"method", "clopper-pearson-weighted"}};
}

OrderedJson branch_json(const ForkBranch& branch) {
  OrderedJson json = {{"text", branch.text},
                      {"ends", branch.ends},
                      {"count", branch.count},
                      {"clusters", branch.clusters}};
  if (branch.token) {
    OrderedJson top = OrderedJson::array();
    for (const auto& [text, logprob] : branch.token->token.top) {
      top.push_back({{"text", text}, {"logprob", logprob}});
    }
    json["token"] = {{"index", branch.token->index},
                     {"text", branch.token->token.text},
                     {"logprob", branch.token->token.logprob},
                     {"top", std::move(top)}};
  }
  return json;
}

}  // namespace

OrderedJson counts_json(const std::map<std::string, std::size_t>& counts, const char* name) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [told, count] : counts) list.push_back({{name, told}, {"count", count}});
  return list;
}

OrderedJson probe_json(const ProbeResult& result) {
  OrderedJson clusters = OrderedJson::array();
  for (const Cluster& cluster : result.clustering.clusters) {
    clusters.push_back(
        {{"sha256", cluster.sha256.hex()},
         {"count", cluster.answers.size()},
         {"first_fork_char",
          cluster.first_fork_char ? OrderedJson(*cluster.first_fork_char) : OrderedJson()},
         {"answers", cluster.answers},
         {"text", cluster.text}});
  }
  OrderedJson forks = OrderedJson::array();
  for (const Fork& fork : result.clustering.forks) {
    OrderedJson branches = OrderedJson::array();
    for (const ForkBranch& branch : fork.branches) branches.push_back(branch_json(branch));
    forks.push_back({{"char", fork.character},
                     {"count", fork.count},
                     {"before", fork.before},
                     {"branches", std::move(branches)}});
  }
  OrderedJson phases = OrderedJson::array();
  for (const ProbePhase& phase : result.phases) {
    phases.push_back({{"concurrency", phase.concurrency},
                      {"neighbours", phase.neighbours},
                      {"neighbours_answered", phase.neighbours_answered},
                      {"neighbours_failed", phase.neighbours_failed},
                      {"asked", phase.asked},
                      {"answered", phase.answers.size()},
                      {"distinct", phase.distinct},
                      {"identical", proportion_json(phase.identical)},
                      {"p_value", phase.p_value ? OrderedJson(*phase.p_value) : OrderedJson()}});
  }
  std::size_t errors = 0;
  OrderedJson by_kind = OrderedJson::array();
  for (const auto& [kind, failure] : result.failures) {
    errors += failure.count;
    by_kind.push_back({{"kind", kind}, {"count", failure.count}, {"message", failure.message}});
  }
  const auto hits = std::count_if(result.answers.begin(), result.answers.end(),
                                  [](const ProbeAnswer& answer) { return answer.cache_hit; });
  const LoadFinding load = load_finding(result);
  return {{"url", result.url},
          {"api", result.api},
          {"model", result.model},
          {"request", result.request},
          {"n", result.asked},
          {"answered", result.answers.size()},
          {"distinct", result.clustering.clusters.size()},
          {"identical", proportion_json(result.identical)},
          {"clusters", std::move(clusters)},
          {"forks", std::move(forks)},
          {"errors", errors},
          {"errors_by_kind", std::move(by_kind)},
          {"phases", std::move(phases)},
          {"load",
           {{"compared", load.compared},
            {"false_positive_rate", kLoadAlpha},
            {"p_value_limit", load.limit},
            {"differs", load.differs},
            {"undecided", load.undecided}}},
          {"cache_hits", hits},
          {"fingerprints", counts_json(result.fingerprints, "system_fingerprint")},
          {"models", counts_json(result.models, "model")},
          {"finish_reasons", counts_json(result.finish_reasons, "finish_reason")},
          {"seed", result.seed}};
}

std::string probe_csv(const ProbeResult& result) {
  std::vector<std::size_t> cluster_of(result.answers.size());
  for (std::size_t i = 0; i < result.clustering.clusters.size(); ++i) {
    for (const std::size_t answer : result.clustering.clusters[i].answers) cluster_of[answer] = i;
  }
  std::string csv = "phase,answer,cluster,sha256,characters,first_fork_char,total_us\r\n";
  for (std::size_t i = 0; i < result.answers.size(); ++i) {
    const Cluster& cluster = result.clustering.clusters[cluster_of[i]];
    csv += std::to_string(result.answers[i].phase) + "," + std::to_string(i) + "," +
           std::to_string(cluster_of[i]) + "," + cluster.sha256.hex() + "," +
           std::to_string(characters(cluster.text)) + "," +
           (cluster.first_fork_char ? std::to_string(*cluster.first_fork_char) : "") + "," +
           std::to_string(result.answers[i].total_us) + "\r\n";
  }
  return csv;
}

}  // namespace verbatim::replay
