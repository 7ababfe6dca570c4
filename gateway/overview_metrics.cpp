#include "gateway/overview_metrics.hpp"

namespace verbatim::gateway {

namespace {

void family(std::string& out, const std::string& name, const char* type, const char* help) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void gauge(std::string& out, const std::string& name, const char* help, std::int64_t value) {
  family(out, name, "gauge", help);
  out += name + " " + std::to_string(value) + "\n";
}

}  // namespace

std::string overview_metrics(const audit::LogOverview& log, std::int64_t now_us) {
  std::string out;
  const std::string total = "verbatim_replay_verdict_total";
  family(out, total, "counter",
         "Verdicts of replays that became leaves since this process started");
  // All names from the start: a rate of what is not there yet is nothing, and not 0.
  for (const char* name : kVerdictNames) {
    out += total + "{verdict=\"" + name + "\"} " + std::to_string(verdict_count(log, name)) + "\n";
  }
  if (!log.recent().empty()) {
    const std::int64_t last_us = log.recent().back().time_us;
    gauge(out, "verbatim_replay_last_verdict_timestamp_seconds",
          "When the newest verdict became a leaf", last_us / 1'000'000);
    gauge(out, "verbatim_replay_last_verdict_age_seconds", "How long ago that was",
          (now_us - last_us) / 1'000'000);
  }
  gauge(out, "verbatim_log_file_bytes", "Size of log.db",
        static_cast<std::int64_t>(log.file_bytes()));
  gauge(out, "verbatim_log_last_leaf_timestamp_seconds",
        "Time of the newest leaf, which the newest checkpoint covers", log.grown_us() / 1'000'000);
  return out;
}

std::uint64_t verdict_count(const audit::LogOverview& log, const std::string& name) {
  const auto found = log.verdicts().find(name);
  return found == log.verdicts().end() ? 0 : found->second;
}

}  // namespace verbatim::gateway
