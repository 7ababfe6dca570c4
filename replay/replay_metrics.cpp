#include "replay/replay_metrics.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace verbatim::replay {

namespace {

/// Whole numbers of a metrics text by name and labels, as they are written there.
std::map<std::string, std::uint64_t, std::less<>> samples_in(std::string_view text) {
  std::map<std::string, std::uint64_t, std::less<>> samples;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t space = line.rfind(' ');
    if (line.rfind("verbatim_replay_", 0) != 0 || space == std::string_view::npos) continue;
    const std::string_view number = line.substr(space + 1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc() && end == number.data() + number.size()) {
      samples.insert_or_assign(std::string(line.substr(0, space)), value);
    }
  }
  return samples;
}

class MetricsText {
 public:
  explicit MetricsText(std::string_view before) : before_(samples_in(before)) {}

  void family(const std::string& name, const char* type, const char* help) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string& series, std::uint64_t value) {
    text_ += series + " " + std::to_string(value) + "\n";
  }
  /// What was told before, and this.
  void go_on(const std::string& series, std::uint64_t more) {
    const auto before = before_.find(series);
    const std::uint64_t so_far = before == before_.end() ? 0 : before->second;
    sample(series, more > UINT64_MAX - so_far ? UINT64_MAX : so_far + more);
  }
  [[nodiscard]] std::string str() && { return std::move(text_); }

 private:
  std::map<std::string, std::uint64_t, std::less<>> before_;
  std::string text_;
};

}  // namespace

std::string replay_metrics(const ReplayRun& run, std::string_view before, std::int64_t ended_us) {
  std::map<VerdictKind, std::uint64_t> given, all;
  std::map<std::string, std::uint64_t> not_replayable;
  std::uint64_t tokens = 0;
  for (const Verdict& verdict : run.verdicts) {
    ++all[verdict.kind];
    if (verdict.kind == VerdictKind::not_replayable) ++not_replayable[verdict.reason];
    if (verdict.resumed) continue;
    ++given[verdict.kind];
    tokens += verdict.tokens;
  }
  MetricsText text(before);
  text.family("verbatim_replay_verdict_total", "counter", "Verdicts that replays have given.");
  const auto series = [](const char* name, VerdictKind kind) {
    return std::string(name) + "{verdict=\"" + std::string(verdict_name(kind)) + "\"}";
  };
  for (const VerdictKind kind : kVerdictKinds) {
    text.go_on(series("verbatim_replay_verdict_total", kind), given[kind]);
  }
  text.family("verbatim_replay_tokens_total", "counter", "Output tokens that replays compared.");
  text.go_on("verbatim_replay_tokens_total", tokens);
  text.family("verbatim_replay_runs_total", "counter", "Replays that ended with verdicts.");
  text.go_on("verbatim_replay_runs_total", 1);
  text.family("verbatim_replay_last_records", "gauge", "Records in the last run, by verdict.");
  for (const VerdictKind kind : kVerdictKinds) {
    text.sample(series("verbatim_replay_last_records", kind), all[kind]);
  }
  text.family("verbatim_replay_last_not_replayable", "gauge",
              "Records in the last run that could not be computed again, by reason.");
  for (const auto& [reason, count] : not_replayable)
    text.sample("verbatim_replay_last_not_replayable{reason=\"" + reason + "\"}", count);
  text.family("verbatim_replay_last_matching", "gauge",
              "Records that the last run was drawn from.");
  text.sample("verbatim_replay_last_matching", run.selected.matching);
  text.family("verbatim_replay_last_run_timestamp_seconds", "gauge", "When the last run ended.");
  text.sample("verbatim_replay_last_run_timestamp_seconds",
              static_cast<std::uint64_t>(ended_us / 1'000'000));
  return std::move(text).str();
}

bool are_replay_metrics(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty() && !line.starts_with("#") && !line.starts_with("verbatim_replay_"))
      return false;
  }
  return true;
}

}  // namespace verbatim::replay
