// The report's section on what lies below the logits: fingerprints of activations, and --explain's findings.

#include "replay/charts.hpp"
#include "replay/replay_sections.hpp"
#include "replay/report_parts.hpp"

namespace verbatim::replay {

namespace {

constexpr std::size_t kFindingsShown = 500;

Html row(const Verdict& verdict, const std::string& finding) {
  return element("tr",
                 cell(mono(verdict.record.str())) +
                     element("td", {{"class", "nowrap"}},
                             swatch(style_of(verdict.kind)) + text(verdict_name(verdict.kind))) +
                     cell(text(finding)));
}

}  // namespace

Html activations_section(const ReplayRun& run) {
  std::size_t exact = 0, findings = 0;
  Html rows;
  const auto add = [&](const Verdict& verdict, const std::string& finding) {
    if (findings++ < kFindingsShown) rows += row(verdict, finding);
  };
  for (const Verdict& verdict : run.verdicts) {
    if (verdict.fingerprint && verdict.fingerprint->exact == verdict.fingerprint->chunks) {
      ++exact;
    } else if (verdict.fingerprint) {
      add(verdict, fingerprint_text(*verdict.fingerprint));
    }
    for (const std::string& content : verdict.not_looked_at)
      add(verdict, content + " is not disclosed, and was not looked at");
    if (verdict.other_weights_named)
      add(verdict, "computed by other weights than those that --engine names for " + verdict.model);
    for (const Json& each : verdict.explanations) add(verdict, explanation_text(each));
  }
  if (exact == 0 && findings == 0) return {};
  Html html("<h2>Below the logits</h2>");
  if (exact > 0) {
    html += element("p", text(plural(exact, "record") +
                              " kept a fingerprint of the activations that the engine gave again, "
                              "exactly."));
  }
  if (findings > 0)
    html += table(head({{"record", ""}, {"verdict", ""}, {"what was found", ""}}), rows);
  if (findings > kFindingsShown) {
    html +=
        element("p", {{"class", "note"}},
                text(std::to_string(findings - kFindingsShown) + " more are in the JSON output."));
  }
  return element("section", html);
}

}  // namespace verbatim::replay
