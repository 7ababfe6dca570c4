#include "replay/probe_report.hpp"

#include "replay/charts.hpp"
#include "replay/report_parts.hpp"

#include <kProbePage.hpp>
#include <kReportStyle.hpp>

#include <algorithm>
#include <cmath>

namespace verbatim::replay {

namespace {

constexpr std::size_t kClustersShown = 24, kForksShown = 40, kStyles = 6;
constexpr std::size_t kTextCharacters = 6000;

std::string style_of(std::size_t cluster) {
  return "s" + std::to_string(std::min(cluster, kStyles - 1));
}

std::string interval(const Proportion& proportion) {
  return percent(proportion.low) + " to " + percent(proportion.high);
}

std::string headline(const ProbeResult& result) {
  const std::size_t answers = result.answers.size(), distinct = result.clustering.clusters.size();
  if (answers == 0) return "No answer came";
  if (distinct == 1) return "The same answer, " + plural(answers, "time");
  return plural(distinct, "different answer") + " to one question, asked " +
         plural(answers, "time");
}

std::string lead(const ProbeResult& result) {
  if (result.answers.empty()) return "Nothing can be said of this endpoint.";
  std::string lead = std::to_string(result.identical.count) + " of " +
                     std::to_string(result.identical.of) + " answers were identical (" +
                     percent(result.identical.share) + "; 95 % interval " +
                     interval(result.identical) + ").";
  if (!result.clustering.forks.empty()) {
    const Fork& fork = result.clustering.forks.front();
    lead += " The first fork is after " + plural(fork.character, "character") + ".";
  }
  std::size_t failed = 0;
  for (const auto& [kind, failure] : result.failures) failed += failure.count;
  if (failed > 0) lead += " " + plural(failed, "question") + " had no answer.";
  return lead;
}

Html facts(const ProbeResult& result) {
  FactList list;
  list.add("Endpoint", result.url);
  list.add("API", result.api);
  list.add("Model, as asked for", result.model);
  list.add("Questions", std::to_string(result.asked));
  list.add_counts("Model, as answered", result.models);
  list.add_counts("Finish reason", result.finish_reasons);
  list.add_counts("system_fingerprint", result.fingerprints);
  const auto hits = std::count_if(result.answers.begin(), result.answers.end(),
                                  [](const ProbeAnswer& answer) { return answer.cache_hit; });
  if (hits > 0)
    list.add("From a cache",
             plural(static_cast<std::size_t>(hits), "answer") + ": these prove nothing");
  return list.html();
}

Html shares(const ProbeResult& result) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < result.clustering.clusters.size(); ++i) {
    const Cluster& cluster = result.clustering.clusters[i];
    parts.push_back({cluster.sha256.hex().substr(0, 12), style_of(i), cluster.answers.size()});
  }
  return parts.empty() ? Html() : share_bar(parts, "Share of each different answer");
}

Html load_sentence(const ProbeResult& result) {
  const LoadFinding load = load_finding(result);
  if (load.compared == 0) return {};
  if (load.undecided) {
    return element("p",
                   text("Too few answers to say whether the load changes them: a p of at most " +
                        ecmascript_number(load.limit) + " against the first line cannot come."));
  }
  const std::string what =
      load.differs ? "The load changes the answers" : "No sign that the load changes the answers";
  return element("p", text(what + ": a p of at most " + ecmascript_number(load.limit) +
                           " against the first line would say so, in one of " +
                           fixed(1 / kLoadAlpha, 0) + " probes of an endpoint where it does not."));
}

Html phases(const ProbeResult& result) {
  Html rows;
  for (const ProbePhase& phase : result.phases) {
    std::string load =
        phase.neighbours == 0 ? "alone" : "among " + plural(phase.neighbours, "neighbour");
    if (phase.neighbours > 0) {
      load += " (" + std::to_string(phase.neighbours_answered) + " answered, " +
              std::to_string(phase.neighbours_failed) + " failed)";
    }
    rows += element("tr",
                    cell(text(load)) + number_cell(std::to_string(phase.at_once())) +
                        number_cell(std::to_string(phase.asked)) +
                        number_cell(std::to_string(phase.answers.size())) +
                        number_cell(std::to_string(phase.distinct)) +
                        number_cell(std::to_string(phase.identical.count)) +
                        number_cell(phase.identical.of == 0 ? "" : percent(phase.identical.share)) +
                        number_cell(phase.identical.of == 0 ? "" : interval(phase.identical)) +
                        number_cell(phase.p_value ? fixed(*phase.p_value, 4) : ""));
  }
  return table(head({{"load", ""},
                     {"at once", "number"},
                     {"asked", "number"},
                     {"answered", "number"},
                     {"distinct", "number"},
                     {"identical", "number"},
                     {"share", "number"},
                     {"95 % interval", "number"},
                     {"p, against the first", "number"}}),
               rows) +
         load_sentence(result);
}

/// The clustering of the answers of the most frequent clusters alone.
Clustering largest(const ProbeResult& result) {
  std::vector<AnswerText> answers;
  for (std::size_t i = 0; i < std::min(kClustersShown, result.clustering.clusters.size()); ++i) {
    for (const std::size_t answer : result.clustering.clusters[i].answers) {
      answers.push_back({result.answers[answer].text.text, "", {}, "", ""});
    }
  }
  return cluster_answers(answers);
}

Html tree(const ProbeResult& result) {
  if (result.answers.empty()) return Html("<p>There is nothing to compare.</p>");
  if (result.clustering.forks.empty()) {
    return element(
        "p", text("Nowhere: all " + plural(result.answers.size(), "answer") + " are the same " +
                  plural(characters(result.clustering.clusters.front().text), "character") + "."));
  }
  std::string caption =
      "Read from the left: what all answers have in common, then each place where they part. "
      "Lines are as thick as the number of answers.";
  if (result.clustering.clusters.size() > kClustersShown) {
    caption += " The " + std::to_string(kClustersShown) + " most frequent of " +
               std::to_string(result.clustering.clusters.size()) + " are drawn.";
  }
  return element("figure", fork_tree(largest(result)) + element("figcaption", text(caption)));
}

Html alternatives(const ForkBranch& branch) {
  if (!branch.token) return {};
  Html list;
  for (const auto& [token, logprob] : branch.token->token.top) {
    if (!list.empty()) list += Html("<br>");
    list += element("code", text(token.empty() ? " " : token)) +
            text("  " + percent(std::exp(logprob)));
  }
  return list;
}

/// The last of what a fork's branches have in common, after an ellipsis if that is not all.
std::string common_end(const Fork& fork) {
  return (fork.byte > fork.before.size() ? "\xE2\x80\xA6" : "") + fork.before;
}

Html forks(const ProbeResult& result) {
  if (result.clustering.forks.empty()) return {};
  const bool tokens =
      std::any_of(result.answers.begin(), result.answers.end(),
                  [](const ProbeAnswer& answer) { return !answer.text.tokens.empty(); });
  Html rows;
  std::size_t shown = 0;
  for (const Fork& fork : result.clustering.forks) {
    if (shown++ == kForksShown) break;
    for (const ForkBranch& branch : fork.branches) {
      const bool first = &branch == &fork.branches.front();
      Html row = number_cell(first ? std::to_string(fork.character) : "");
      row += cell(first ? element("span", {{"class", "said"}}, text(common_end(fork))) : Html());
      row += cell(swatch(style_of(branch.clusters.front())) +
                  (branch.ends
                       ? Html("<em>ends here</em>")
                       : element("span", {{"class", "said"}}, text(shortened(branch.text, 60)))));
      row += number_cell(std::to_string(branch.count));
      if (tokens) {
        row += number_cell(branch.token ? std::to_string(branch.token->index) : "");
        row += cell(alternatives(branch));
      }
      const bool last = &branch == &fork.branches.back();
      rows += element("tr", {{"class", last ? "" : "goes-on"}}, row);
    }
  }
  return tokens ? table(head({{"character", "number"},
                              {"after", ""},
                              {"goes on", ""},
                              {"answers", "number"},
                              {"token", "number"},
                              {"likeliest tokens there, as the endpoint says", ""}}),
                        rows)
                : table(head({{"character", "number"},
                              {"after", ""},
                              {"goes on", ""},
                              {"answers", "number"}}),
                        rows);
}

/// The text of a cluster; what it has in common with the first is soft, what is its own stands out.
Html said(const Cluster& cluster, bool first) {
  const std::string shown = shortened(cluster.text, kTextCharacters);
  if (first || !cluster.first_fork_char) return text(shown);
  std::size_t at = 0;
  for (std::size_t count = 0; at < shown.size(); ++at) {
    if ((static_cast<unsigned char>(shown[at]) & 0xC0) != 0x80 &&
        count++ == *cluster.first_fork_char)
      break;
  }
  std::size_t end = std::min(at + 1, shown.size());
  while (end < shown.size() && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) ++end;
  Html html = element("span", {{"class", "common"}}, text(shown.substr(0, at)));
  if (end > at) html += element("span", {{"class", "forked"}}, text(shown.substr(at, end - at)));
  return html + text(shown.substr(end));
}

Html answers(const ProbeResult& result) {
  Html cards;
  for (std::size_t i = 0; i < std::min(kClustersShown, result.clustering.clusters.size()); ++i) {
    const Cluster& cluster = result.clustering.clusters[i];
    std::string meta = plural(cluster.answers.size(), "answer") + " of " +
                       plural(characters(cluster.text), "character");
    if (cluster.first_fork_char) {
      meta += ", apart from the first after " + plural(*cluster.first_fork_char, "character");
    }
    cards += element("div", {{"class", "card"}},
                     element("p", {{"class", "meta"}}, swatch(style_of(i)) + text(meta)) +
                         element("p", {{"class", "said"}}, said(cluster, i == 0)) +
                         element("p", {{"class", "meta mono"}, {"style", "margin:.8rem 0 0"}},
                                 text("SHA-256 " + cluster.sha256.hex())));
  }
  if (result.clustering.clusters.size() > kClustersShown) {
    cards += element("p", {{"class", "note"}},
                     text(std::to_string(result.clustering.clusters.size() - kClustersShown) +
                          " more are in the JSON output."));
  }
  return cards;
}

Html failures(const ProbeResult& result) {
  if (result.failures.empty()) return {};
  Html rows;
  for (const auto& [kind, failure] : result.failures) {
    rows +=
        element("tr", cell(element("code", text(kind))) +
                          number_cell(std::to_string(failure.count)) + cell(text(failure.message)));
  }
  return element("section",
                 Html("<h2>Questions without an answer</h2>") +
                     table(head({{"kind", ""}, {"count", "number"}, {"first message", ""}}), rows));
}

}  // namespace

std::string probe_report(const ProbeResult& result, const std::string& made) {
  return fill(kProbePage,
              {{"title", text("Probe of " + result.model + ": " + headline(result))},
               {"style", embed(kReportStyle)},
               {"headline", text(headline(result))},
               {"lead", text(lead(result))},
               {"facts", facts(result)},
               {"request", text(result.request)},
               {"shares", shares(result)},
               {"phases", phases(result)},
               {"tree", tree(result)},
               {"forks", forks(result)},
               {"answers", answers(result)},
               {"failures", failures(result)},
               {"made", text("Made " + made + " by verbatim " + VERBATIM_VERSION + ".")}});
}

}  // namespace verbatim::replay
