// What a replay report counts.

#include "gateway/environment.hpp"
#include "replay/report_parts.hpp"
#include "replay/time_line.hpp"

#include <algorithm>
#include <limits>

namespace verbatim::replay {

namespace {

/// A field as RFC 4180 has it. A text that a spreadsheet would take for a formula is kept a text by a quote before it.
std::string csv_field(std::string text) {
  if (!text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos) {
    text.insert(text.begin(), '\'');
  }
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

template <class T>
std::string optional_text(const std::optional<T>& value) {
  return value ? std::to_string(*value) : std::string();
}

/// A unit that makes at most `columns_max` columns of the time between the first and the last record.
std::int64_t column_us(std::int64_t span_us, std::size_t columns_max) {
  static constexpr std::int64_t kSecond = 1'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute,
                                kDay = 24 * kHour;
  for (const std::int64_t unit :
       {kSecond, 5 * kSecond, 15 * kSecond, kMinute, 5 * kMinute, 15 * kMinute, kHour, 6 * kHour,
        kDay, 7 * kDay, 30 * kDay, 90 * kDay}) {
    if (span_us / unit < static_cast<std::int64_t>(columns_max)) return unit;
  }
  return span_us / static_cast<std::int64_t>(columns_max) + 1;
}

}  // namespace

TimeLine time_line(const ReplayRun& run) {
  constexpr std::size_t kColumnsMax = 40;
  TimeLine line;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  for (const Verdict& verdict : run.verdicts) {
    if (verdict.time_us == 0) continue;
    first = std::min(first, verdict.time_us);
    last = std::max(last, verdict.time_us);
  }
  if (last == 0) return line;
  line.column_us = column_us(last - first, kColumnsMax);
  line.start_us = first - first % line.column_us;
  line.columns.resize(static_cast<std::size_t>((last - line.start_us) / line.column_us) + 1);
  for (const Verdict& verdict : run.verdicts) {
    if (verdict.time_us == 0) continue;
    const auto column =
        static_cast<std::size_t>((verdict.time_us - line.start_us) / line.column_us);
    ++line.columns[column][static_cast<std::size_t>(verdict.kind)];
  }
  const RecordedEnvironment* before = nullptr;
  for (const auto& [index, environment] : run.environments) {
    if (before != nullptr) {
      auto changed = gateway::changed_facts(before->facts, environment.facts);
      if (!changed.empty())
        line.changes.push_back({index, environment.time_us, std::move(changed)});
    }
    before = &environment;
  }
  return line;
}

bool needs_a_look_before(const Verdict& a, const Verdict& b) {
  if (badness(a.kind) != badness(b.kind)) return badness(a.kind) > badness(b.kind);
  return smallest_margin(a) < smallest_margin(b);
}

void keep_traces(std::vector<Verdict>& verdicts, std::size_t texts_max) {
  std::vector<Verdict*> traced;
  for (Verdict& verdict : verdicts) {
    if (!verdict.trace.empty()) traced.push_back(&verdict);
  }
  if (traced.size() <= texts_max) return;
  std::stable_sort(traced.begin(), traced.end(),
                   [](const Verdict* a, const Verdict* b) { return needs_a_look_before(*a, *b); });
  for (std::size_t i = texts_max; i < traced.size(); ++i) {
    std::vector<TracedToken>().swap(traced[i]->trace);
  }
}

OrderedJson replay_figures(const ReplayRun& run) {
  OrderedJson kinds = OrderedJson::object(), reasons = OrderedJson::object();
  for (const VerdictKind kind : kVerdictKinds) kinds[std::string(verdict_name(kind))] = 0;
  std::map<std::string, std::uint64_t> by_reason;
  MarginCounts margins;
  std::size_t tokens = 0;
  for (const Verdict& verdict : run.verdicts) {
    OrderedJson& count = kinds[std::string(verdict_name(verdict.kind))];
    count = count.get<std::uint64_t>() + 1;
    if (!verdict.reason.empty()) ++by_reason[verdict.reason];
    margins.add(verdict.margins);
    tokens += verdict.tokens;
  }
  for (const auto& [reason, count] : by_reason) reasons[reason] = count;
  OrderedJson edges = OrderedJson::array();
  for (const float edge : MarginCounts::kEdges) edges.push_back(decimal(edge));
  const TimeLine line = time_line(run);
  OrderedJson columns = OrderedJson::array();
  for (std::size_t i = 0; i < line.columns.size(); ++i) {
    columns.push_back(
        {{"from", format_rfc3339(line.start_us + static_cast<std::int64_t>(i) * line.column_us)},
         {"counts", line.columns[i]}});
  }
  OrderedJson changes = OrderedJson::array();
  for (const auto& change : line.changes) {
    changes.push_back({{"leaf", change.index},
                       {"time", format_rfc3339(change.time_us)},
                       {"facts", change.facts}});
  }
  OrderedJson environments = OrderedJson::array();
  for (const auto& [index, environment] : run.environments) {
    const auto records =
        std::count_if(run.verdicts.begin(), run.verdicts.end(),
                      [at = index](const Verdict& v) { return v.environment == at; });
    environments.push_back(
        {{"leaf", index}, {"records", records}, {"differs", environment.differs}});
  }
  return {{"records", run.verdicts.size()},
          {"matching", run.selected.matching},
          {"tree_size", run.selected.tree_size},
          {"tokens", tokens},
          {"verdicts", std::move(kinds)},
          {"reasons", std::move(reasons)},
          {"margins", {{"edges", std::move(edges)}, {"counts", margins.counts()}}},
          {"time_line",
           {{"column_us", line.column_us},
            {"columns", std::move(columns)},
            {"changes", std::move(changes)}}},
          {"environments", std::move(environments)}};
}

std::string replay_csv(const ReplayRun& run) {
  std::string csv =
      "id,time,model,verdict,reason,choice,position,char,expected,got,margin,deficit,tokens,"
      "differing,"
      "weights_sha256,profile,backend,environment,hypotheses,detail\r\n";
  for (const Verdict& v : run.verdicts) {
    const ReplayEngine engine = v.engine.value_or(ReplayEngine{});
    bool first = true;
    for (const std::string& field : {v.record.str(),
                                     v.time_us == 0 ? std::string() : format_rfc3339(v.time_us),
                                     v.model,
                                     std::string(verdict_name(v.kind)),
                                     v.reason,
                                     std::to_string(v.choice),
                                     optional_text(v.position),
                                     optional_text(v.character),
                                     optional_text(v.expected),
                                     optional_text(v.got),
                                     v.margin ? decimal(*v.margin) : "",
                                     v.deficit ? decimal(*v.deficit) : "",
                                     std::to_string(v.tokens),
                                     std::to_string(v.differing),
                                     engine.weights_sha256,
                                     engine.profile,
                                     engine.backend,
                                     optional_text(v.environment),
                                     joined(v.hypotheses, " "),
                                     v.detail}) {
      if (!std::exchange(first, false)) csv += ",";
      csv += csv_field(field);
    }
    csv += "\r\n";
  }
  return csv;
}

}  // namespace verbatim::replay
