#include "replay/charts.hpp"
#include "replay/replay_sections.hpp"
#include "replay/report_parts.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::replay {

namespace {

constexpr std::size_t kDivergencesShown = 24;

std::string traced_text(const Verdict& verdict, std::size_t from, std::size_t to) {
  std::string all;
  for (std::size_t i = from; i < std::min(to, verdict.trace.size()); ++i)
    all += verdict.trace[i].text;
  return all;
}

/// "answer 2 of 3" and what separates it from the rest; "" where there is one.
std::string which_answer(const Verdict& verdict, const char* separator) {
  if (verdict.choices < 2) return "";
  return "answer " + std::to_string(verdict.choice + 1) + " of " + std::to_string(verdict.choices) +
         separator;
}

/// The recorded answer and the engine's choice as two branches.
Html divergence_tree(const Verdict& verdict) {
  const std::size_t at = *verdict.position;
  const std::string before = traced_text(verdict, 0, at);
  const std::string recorded = before + traced_text(verdict, at, verdict.trace.size());
  const Clustering two =
      cluster_answers({{before + verdict.got_text, "", {}, "", ""}, {recorded, "", {}, "", ""}});
  std::vector<std::string> names;
  for (const Cluster& cluster : two.clusters) {
    names.emplace_back(cluster.text == recorded ? "recorded" : "engine");
  }
  // Of the engine's branch one token is known, whatever would have come after it.
  return element("figure", fork_tree(two, names, "\xE2\x80\xA6"));
}

Html divergence_card(const ReplayRun& run, const Verdict& verdict) {
  FactList list;
  list.add("Record", mono(verdict.record.str()));
  list.add("Reason", verdict.reason + (verdict.detail.empty() ? "" : ": " + verdict.detail));
  if (verdict.position) {
    list.add("Place",
             which_answer(verdict, ", ") + "token " + std::to_string(*verdict.position) +
                 (verdict.character ? ", which begins at byte " +
                                          std::to_string(*verdict.character) + " of the text"
                                    : ""));
  } else if (verdict.character) {
    list.add("Place", "byte " + std::to_string(*verdict.character) + " of the text");
  }
  if (run.with_texts && verdict.expected && !verdict.expected_text.empty()) {
    list.add("Recorded token", element("code", text(verdict.expected_text)) +
                                   text("  id " + std::to_string(*verdict.expected)));
  }
  if (run.with_texts && verdict.got && !verdict.got_text.empty()) {
    list.add("Engine\xE2\x80\x99s choice", element("code", text(verdict.got_text)) +
                                               text("  id " + std::to_string(*verdict.got)));
  }
  if (verdict.deficit) list.add("Deficit", decimal(*verdict.deficit) + " logit units");
  if (!verdict.hypotheses.empty()) list.add("May be", hypotheses_text(verdict.hypotheses));
  Html card = list.html();
  if (run.with_texts && verdict.reason == "token" && verdict.position && !verdict.trace.empty() &&
      !verdict.got_text.empty()) {
    card += divergence_tree(verdict);
  }
  return element("div", {{"class", "card"}}, card);
}

Html said(const Verdict& verdict) {
  Html html;
  for (const TracedToken& token : verdict.trace) {
    if (token.text.empty()) continue;
    const char* style = !token.chosen              ? "other"
                        : token.margin < kVeryNear ? "near very"
                        : token.margin < kNear     ? "near"
                                                   : nullptr;
    html += style == nullptr ? text(token.text)
                             : element("span",
                                       {{"class", style},
                                        {"title", "margin " + decimal(token.margin) + ", deficit " +
                                                      decimal(token.deficit)}},
                                       text(token.text));
  }
  return html;
}

Html text_card(const Verdict& verdict) {
  const float smallest = smallest_margin(verdict);
  const Html meta =
      swatch(style_of(verdict.kind)) +
      text(std::string(verdict_name(verdict.kind)) + " \xC2\xB7 " + verdict.model + " \xC2\xB7 " +
           which_answer(verdict, " \xC2\xB7 ") + plural(verdict.trace.size(), "token") +
           " \xC2\xB7 " +
           (std::isfinite(smallest) ? "smallest margin " + decimal(smallest)
                                    : std::string("a filter left no runner-up anywhere")) +
           " \xC2\xB7 ") +
      mono(verdict.record.str());
  return element(
      "div", {{"class", "card"}, {"id", "r-" + verdict.record.str()}},
      element("p", {{"class", "meta"}}, meta) + element("p", {{"class", "said"}}, said(verdict)));
}

}  // namespace

Html divergences_section(const ReplayRun& run) {
  std::vector<const Verdict*> diverged;
  for (const Verdict& verdict : run.verdicts) {
    if (verdict.kind == VerdictKind::diverged) diverged.push_back(&verdict);
  }
  // The largest deficit first: what no rounding could explain.
  std::stable_sort(diverged.begin(), diverged.end(), [](const Verdict* a, const Verdict* b) {
    return a->deficit.value_or(0) > b->deficit.value_or(0);
  });
  Html cards;
  const std::size_t shown = std::min(diverged.size(), kDivergencesShown);
  for (std::size_t i = 0; i < shown; ++i) cards += divergence_card(run, *diverged[i]);
  if (cards.empty()) return {};
  if (diverged.size() > shown) {
    cards += element("p", {{"class", "note"}},
                     text("The " + std::to_string(shown) + " with the largest deficit, of " +
                          std::to_string(diverged.size()) + "; all are in the table below."));
  }
  return element("section", Html("<h2>What diverged</h2>") + cards);
}

Html texts_section(const ReplayRun& run) {
  if (!run.with_texts)
    return Html("<p>Recorded texts were left out of this report on purpose.</p>");
  std::vector<const Verdict*> shown;
  std::size_t compared = 0;
  for (const Verdict& verdict : run.verdicts) {
    compared += verdict.tokens > 0 ? 1 : 0;
    if (!verdict.trace.empty()) shown.push_back(&verdict);
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [](const Verdict* a, const Verdict* b) { return needs_a_look_before(*a, *b); });
  Html cards;
  for (const Verdict* verdict : shown) cards += text_card(*verdict);
  if (cards.empty()) return Html("<p>No text was computed again in this run.</p>");
  Html legend = Html(
      "<p class=\"note\"><span class=\"said\"><span class=\"near\">Shaded</span></span>: another "
      "token was within 0.1 "
      "logit units. <span class=\"said\"><span class=\"near very\">Underlined</span></span>: "
      "within 0.01. "
      "<span class=\"said\"><span class=\"other\">Inverted</span></span>: not the engine&rsquo;s "
      "choice.</p>");
  if (shown.size() < compared) {
    legend += element(
        "p", {{"class", "note"}},
        text("The " + std::to_string(shown.size()) + " of " + std::to_string(compared) +
             " texts that need a look first: the worst verdicts, then the smallest margins."));
  }
  return legend + cards;
}

}  // namespace verbatim::replay
