#include "replay/replay_report.hpp"

#include "replay/charts.hpp"
#include "replay/proportion.hpp"
#include "replay/replay_sections.hpp"
#include "replay/report_parts.hpp"

#include <kReplayPage.hpp>
#include <kReportStyle.hpp>

#include <algorithm>

namespace verbatim::replay {

namespace {

constexpr std::size_t kRowsShown = 5000, kEnvironmentsShown = 3;

const char* claim_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::bitwise:
      return "These weights, this request and this seed give exactly this output: every token and "
             "every logit.";
    case VerdictKind::token_exact:
      return "Every token is the engine\xE2\x80\x99s own choice; no digest of logits was recorded.";
    case VerdictKind::within_margin:
      return "No more tokens differ, and by no more, than in the honest answers that the "
             "calibration was made from.";
    case VerdictKind::diverged:
      return "Not reproducible from what was recorded.";
    case VerdictKind::not_replayable:
      return "Nothing; the reason is given.";
    case VerdictKind::erased:
      return "Nothing: the contents were erased on purpose.";
    case VerdictKind::pruned:
      return "Nothing: the record was pruned by its retention rule.";
  }
  return "";
}

std::string headline(const ReplayRun& run) {
  const std::size_t all = run.verdicts.size();
  const std::size_t bitwise = count_of(run, VerdictKind::bitwise);
  const std::size_t diverged = count_of(run, VerdictKind::diverged);
  const std::size_t silent = count_of(run, VerdictKind::not_replayable) +
                             count_of(run, VerdictKind::erased) +
                             count_of(run, VerdictKind::pruned);
  const std::string of_all = std::to_string(all) + (all == 1 ? " record" : " records");
  if (all == 0) return "No record was selected";
  if (diverged > 0) {
    return std::to_string(diverged) + " of " + std::to_string(all - silent) +
           " records that could be computed again diverged";
  }
  if (silent == all) return "None of " + of_all + " could be computed again";
  if (bitwise == all) return "All " + of_all + " computed again, bit for bit";
  return std::to_string(all - silent) + " of " + of_all + " computed again, and none diverged";
}

std::string lead(const ReplayRun& run) {
  std::size_t tokens = 0;
  for (const Verdict& verdict : run.verdicts) tokens += verdict.tokens;
  std::string lead = plural(tokens, "token") + " compared";
  for (const VerdictKind kind : kVerdictKinds) {
    if (const std::size_t count = count_of(run, kind); count > 0) {
      lead += ", " + std::to_string(count) + " " + std::string(verdict_name(kind));
    }
  }
  return lead + ".";
}

/// What verdicts on remote endpoints rest on.
Html claimed(const ReplayRun& run) {
  std::size_t answers = 0;
  std::map<std::string, Tolerance> calibrations;
  for (const Verdict& verdict : run.verdicts) {
    if (!verdict.claimed_weights) continue;
    ++answers;
    if (verdict.tolerance)
      calibrations.emplace(verdict.tolerance->calibration_sha256, *verdict.tolerance);
  }
  if (answers == 0) return {};
  Html html = text(plural(answers, "answer") +
                   " of remote endpoints: that they serve the weights named below is the word of "
                   "who gave --engine, and no more.");
  for (const auto& [sha256, by] : calibrations) {
    html += Html("<br>") + text("Calibration ") + mono(sha256) +
            text(": deficits up to " + by.threshold +
                 " logit units are taken for rounding. Of honest answers about " +
                 by.false_positive_rate + " (as a share) will be called DIVERGED.");
  }
  std::map<std::string, std::size_t> defaults;
  for (const Verdict& verdict : run.verdicts) {
    if (!verdict.defaults.empty()) ++defaults[verdict.defaults];
  }
  for (const auto& [words, count] : defaults) {
    html += Html("<br>") +
            text("Of " + plural(count, "answer") +
                 " it was assumed that the server set what the request leaves open, since "
                 "so the answer fits better: " +
                 words + ".");
  }
  if (calibrations.empty())
    html += text(" There was no calibration, so rounding is called DIVERGED too.");
  return html;
}

Html facts(const ReplayRun& run) {
  FactList list;
  list.add("Selection", run.design);
  if (!run.bundle.empty()) list.add("Evidence", run.bundle);
  list.add("Log", run.origin);
  list.add("Its tree", text(std::to_string(run.selected.tree_size) + " leaves, root") +
                           Html("<br>") + mono(run.selected.root));
  list.add("Its key", mono(run.vkey));
  list.add("Method", run.method == "decode" ? "decode: generated again, token by token"
                                            : "score: prompt and recorded output in one prefill");
  if (const Html claims = claimed(run); !claims.empty()) list.add("Other engines", claims);
  std::vector<std::string> seen;
  for (const Verdict& verdict : run.verdicts) {
    if (!verdict.engine) continue;
    const ReplayEngine& engine = *verdict.engine;
    const std::string key = engine.profile + engine.backend + engine.build + engine.weights_sha256;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    list.add("Engine", text(engine.profile + ", " + engine.backend + ", build " + engine.build) +
                           Html("<br>weights ") + mono(engine.weights_sha256));
  }
  list.add("Self-check",
           run.engines_checked == 0
               ? "no engine was needed in this run"
               : plural(run.engines_checked, "engine") +
                     " passed before judging: the same bits alone, in a batch, and in one prefill");
  const auto resumed = static_cast<std::size_t>(std::count_if(
      run.verdicts.begin(), run.verdicts.end(), [](const Verdict& v) { return v.resumed; }));
  if (resumed > 0)
    list.add("Taken over",
             plural(resumed, "verdict") + " of an earlier run: the same build, method and weights");
  return list.html();
}

Html shares(const ReplayRun& run) {
  std::vector<Part> parts;
  for (const VerdictKind kind : kVerdictKinds) {
    parts.push_back({std::string(verdict_name(kind)), style_of(kind), count_of(run, kind)});
  }
  return run.verdicts.empty() ? Html() : share_bar(parts, "Share of each verdict");
}

Html verdict_rows(const ReplayRun& run) {
  const bool sampled = run.selected.matching > run.verdicts.size();
  Html rows;
  for (const VerdictKind kind : kVerdictKinds) {
    const std::size_t count = count_of(run, kind);
    if (count == 0 && kind != VerdictKind::bitwise && kind != VerdictKind::diverged) continue;
    const Proportion share = wilson(count, run.verdicts.size());
    Html row =
        element("td", {{"class", "nowrap"}}, swatch(style_of(kind)) + text(verdict_name(kind))) +
        number_cell(std::to_string(count)) + number_cell(percent(share.share));
    if (sampled) row += number_cell(percent(share.low) + " to " + percent(share.high));
    rows += element("tr", row + cell(text(claim_of(kind))));
  }
  return sampled ? table(head({{"verdict", ""},
                               {"records", "number"},
                               {"share", "number"},
                               {"95 % interval for all", "number"},
                               {"what may be claimed", ""}}),
                         rows)
                 : table(head({{"verdict", ""},
                               {"records", "number"},
                               {"share", "number"},
                               {"what may be claimed", ""}}),
                         rows);
}

/// For who reads a report and no manual.
const char* in_words(const std::string& reason) {
  static const std::map<std::string, const char*> kWords = {
      {"config_differs", "the model has another configuration than when it was recorded"},
      {"fingerprint", "the recorded activations are not those of the engine"},
      {"length", "more tokens than the request allows"},
      {"logits", "the tokens agree, the recorded digests of the logits do not"},
      {"malformed_record", "the record is not as the gateway writes it"},
      {"memory", "it takes more memory than --kv-bytes-max gives"},
      {"erased", "the contents were erased; the log says by which leaf"},
      {"no_output", "no model answered: a list of models, or the like"},
      {"no_tokens", "the record keeps no tokens"},
      {"not_captured", "a capture rule or redaction left out what a replay needs"},
      {"not_disclosed", "the bundle does not hold the contents"},
      {"open", "the exchange has no end yet"},
      {"parameters", "a parameter of the request that this engine does not have"},
      {"profile_differs", "recorded under another numerics profile"},
      {"prompt", "the recorded request does not give the recorded prompt"},
      {"pruned", "its time was over; hashes are left"},
      {"range", "prompt and answer are beyond what the model or the engine computes"},
      {"remote", "another server answered, and nobody named its weights (--engine)"},
      {"rounding", "no more than honest rounding does, by the calibration"},
      {"status", "the exchange did not end complete: refused, cut off, or failed"},
      {"template_differs", "the model has another chat template than when it was recorded"},
      {"text", "the recorded answer is not the text of the recorded tokens"},
      {"token", "a recorded token is not the engine\xE2\x80\x99s choice"},
      {"tokenization", "the answer\xE2\x80\x99s text does not give one sequence of tokens"},
      {"tokenizer_differs", "the model has another tokenizer than when it was recorded"},
      {"unseeded", "it was sampled, with noise that only its engine knows"},
      {"unsupported", "the engine does not compute this kind of model"},
      {"weights_differ", "the model of this name has other weights than when it was recorded"},
      {"weights_missing", "the weights are not here (--engine NAME=PATH)"},
      {"weights_unreadable", "the weights cannot be read"},
      {"writer_differs",
       "tokens and logits agree; another version of the gateway wrote the answer"},
  };
  const auto found = kWords.find(reason);
  return found == kWords.end() ? "" : found->second;
}

Html reasons(const ReplayRun& run) {
  std::map<std::pair<VerdictKind, std::string>, std::size_t> counts;
  for (const Verdict& verdict : run.verdicts) {
    if (!verdict.reason.empty()) ++counts[{verdict.kind, verdict.reason}];
  }
  if (counts.empty()) return {};
  Html rows;
  for (const auto& [key, count] : counts) {
    rows +=
        element("tr", element("td", {{"class", "nowrap"}},
                              swatch(style_of(key.first)) + text(verdict_name(key.first))) +
                          cell(element("code", text(key.second))) +
                          cell(text(in_words(key.second))) + number_cell(std::to_string(count)));
  }
  return Html("<h3 style=\"margin-top:1.6rem\">Reasons</h3>") +
         element(
             "div", {{"class", "short"}},
             table(
                 head(
                     {{"verdict", ""}, {"reason", ""}, {"which means", ""}, {"records", "number"}}),
                 rows));
}

Html environments(const ReplayRun& run) {
  std::vector<const RecordedEnvironment*> shown;
  for (const auto& [index, environment] : run.environments) shown.push_back(&environment);
  if (shown.size() > kEnvironmentsShown)
    shown.erase(shown.begin(), shown.end() - kEnvironmentsShown);
  if (shown.empty()) return Html("<p>The records name no environment.</p>");
  Html heads = element("th", text("fact")) + element("th", text("replayed here"));
  for (const auto* environment : shown) {
    heads += element("th", text("recorded, leaf " + std::to_string(environment->index)));
  }
  std::map<std::string, bool> names;
  for (const auto& [name, value] : run.here) names[name] = true;
  for (const auto* environment : shown) {
    for (const auto& [name, value] : environment->facts) names[name] = true;
  }
  Html rows;
  for (const auto& [name, unused] : names) {
    const auto here = run.here.find(name);
    const std::string own = here == run.here.end() ? "" : here->second;
    Html row = element("td", {{"class", "name"}}, text(name)) + cell(text(own));
    for (const auto* environment : shown) {
      const auto there = environment->facts.find(name);
      const std::string value = there == environment->facts.end() ? "" : there->second;
      row += element("td", {{"class", value == own ? "" : "differs"}},
                     value == own ? Html("<span class=\"note\">the same</span>") : text(value));
    }
    rows += element("tr", row);
  }
  Html html = table(element("thead", element("tr", heads)), rows);
  if (run.environments.size() > shown.size()) {
    html += element("p", {{"class", "note"}},
                    text("The newest " + std::to_string(shown.size()) + " of " +
                         std::to_string(run.environments.size()) + " environments."));
  }
  return html;
}

/// To the second, with a space where a narrow column may break it.
std::string date_and_time(std::int64_t time_us) {
  return format_rfc3339(time_us).substr(0, 19).replace(10, 1, " ");
}

/// A longer name would make its row as high as a page; CSV and JSON have it whole.
constexpr std::size_t kModelCharactersMax = 80;

Html record_row(const ReplayRun& run, const Verdict& verdict) {
  const std::string id = verdict.record.str();
  const bool linked = run.with_texts && !verdict.trace.empty();
  // The end of an origin's id tells it from others; the whole is its title, and in CSV and JSON.
  constexpr std::size_t kIdEnd = 12;
  std::string where = verdict.reason;
  if (verdict.position) where += " at token " + std::to_string(*verdict.position);
  if (verdict.deficit && *verdict.deficit > 0) where += ", deficit " + decimal(*verdict.deficit);
  if (verdict.origin) where += (where.empty() ? "" : ", ") + std::string("cache hit of ");
  Html reason = text(where);
  if (verdict.origin) {
    const std::string origin = verdict.origin->str();
    reason += element("span", {{"class", "mono"}, {"title", origin}},
                      text("\xE2\x80\xA6" + origin.substr(origin.size() - kIdEnd)));
  }
  return element(
      "tr",
      cell(linked ? element("a", {{"href", "#r-" + id}, {"class", "mono"}}, text(id)) : mono(id)) +
          cell(text(verdict.time_us == 0 ? "" : date_and_time(verdict.time_us))) +
          cell(text(shortened(verdict.model, kModelCharactersMax))) +
          element("td", {{"class", "nowrap"}},
                  swatch(style_of(verdict.kind)) + text(verdict_name(verdict.kind))) +
          cell(reason) + number_cell(std::to_string(verdict.tokens)) +
          number_cell(verdict.response_index ? std::to_string(*verdict.response_index) : "") +
          number_cell(verdict.leaf ? std::to_string(*verdict.leaf) : ""));
}

Html records(const ReplayRun& run) {
  Html rows;
  for (std::size_t i = 0; i < std::min(kRowsShown, run.verdicts.size()); ++i)
    rows += record_row(run, run.verdicts[i]);
  Html html = table(head({{"record", ""},
                          {"asked (UTC)", ""},
                          {"model", ""},
                          {"verdict", ""},
                          {"reason", ""},
                          {"tokens", "number"},
                          {"answer\xE2\x80\x99s leaf", "number"},
                          {"verdict\xE2\x80\x99s leaf", "number"}}),
                    rows);
  if (run.verdicts.size() > kRowsShown) {
    html += element("p", {{"class", "note"}},
                    text(std::to_string(run.verdicts.size() - kRowsShown) +
                         " more are in the CSV file and the JSON output."));
  }
  return html;
}

}  // namespace

std::size_t count_of(const ReplayRun& run, VerdictKind kind) {
  return static_cast<std::size_t>(
      std::count_if(run.verdicts.begin(), run.verdicts.end(),
                    [&](const Verdict& verdict) { return verdict.kind == kind; }));
}

std::string replay_report(const ReplayRun& run) {
  return fill(
      kReplayPage,
      {{"title", text("Replay of " + run.origin + ": " + headline(run))},
       {"style", embed(kReportStyle)},
       {"headline", text(headline(run))},
       {"lead", text(lead(run))},
       {"facts", facts(run)},
       {"shares", shares(run)},
       {"verdicts", verdict_rows(run)},
       {"reasons", reasons(run)},
       {"timeline", time_line_section(run)},
       {"margins", margins_section(run)},
       {"divergences", divergences_section(run)},
       {"activations", activations_section(run)},
       {"texts", texts_section(run)},
       {"environments", environments(run)},
       {"records", records(run)},
       {"made", text("Made " + run.made + " by verbatim " + VERBATIM_VERSION + ".")},
       {"verdicts_are", text(run.bundle.empty() ? "Each verdict is a leaf of the log, with a "
                                                  "statement signed by the log\xE2\x80\x99s key"
                                                : "These verdicts were given by whoever ran "
                                                  "this, from a bundle: they are in no log, "
                                                  "and nobody has signed them")}});
}

}  // namespace verbatim::replay
