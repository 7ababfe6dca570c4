// verbatim probe: ask one question many times, and see whether the answers are the same.

#include "cli/probe_flags.hpp"
#include "cli/progress.hpp"
#include "cli/replay_evidence.hpp"
#include "cli/show_text.hpp"
#include "replay/probe_report.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

constexpr std::size_t kQuestionsMax = 10'000, kInFlightMax = 1024;
constexpr std::size_t kMessageBytesMax = 200;

Result<gateway::Api> api_of(const ProbeFlags& flags) {
  if (flags.api == "anthropic") return gateway::Api::anthropic_messages;
  if (flags.api != "openai") {
    return Error{Errc::invalid_input, "unknown API '" + flags.api + "'", "--api",
                 "use openai or anthropic"};
  }
  const auto body = parse_json(flags.options.request);
  const bool completions =
      body && body->is_object() && body->contains("prompt") && !body->contains("messages");
  return completions ? gateway::Api::openai_completions : gateway::Api::openai_chat;
}

/// The key comes from the environment: a command line can be read by everyone on the machine.
Result<std::string> key_of(const std::string& variable) {
  if (variable.empty()) return std::string();
  const char* key = std::getenv(variable.c_str());
  if (key == nullptr || *key == '\0') {
    return Error{Errc::invalid_input, "no API key in the environment", "variable " + variable,
                 "set it, or leave --api-key-env out"};
  }
  return std::string(key);
}

}  // namespace

Result<replay::ProbeOptions> probe_options(ProbeFlags& flags) {
  replay::ProbeOptions& options = flags.options;
  const auto url = gateway::parse_base_url(flags.url);
  if (!url) return url.error();
  options.endpoint.url = *url;
  options.endpoint.ca_file = flags.ca_file;
  options.endpoint.total = std::chrono::seconds(flags.timeout_s);
  options.endpoint.connect = std::min(options.endpoint.connect, options.endpoint.total);
  if (!flags.request_file.empty()) {
    auto request = read_input(flags.request_file);
    if (!request) return request.error();
    options.request = std::move(*request);
  }
  const auto api = api_of(flags);
  if (!api) return api.error();
  options.api = *api;
  auto key = key_of(flags.api_key_env);
  if (!key) return key.error();
  options.api_key = std::move(*key);
  return options;
}

namespace {

/// The beginning of a text from an endpoint, on one line of a terminal.
std::string printable(std::string_view text, std::size_t bytes_max) {
  std::size_t end = std::min(text.size(), bytes_max);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;  // never inside a character
  }
  std::string line(text.substr(0, end));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return one_line(end < text.size() ? line + "..." : line);
}

/// Under one load there is nothing to tell apart.
void print_phases(const replay::ProbeResult& result) {
  if (result.phases.size() < 2) return;
  for (const replay::ProbePhase& phase : result.phases) {
    std::cout << "  " << phase.at_once() << " at once";
    if (phase.neighbours > 0) std::cout << " among " << phase.neighbours << " neighbours";
    std::cout << ": " << phase.answers.size() << " answered, " << phase.distinct << " distinct, "
              << phase.identical.count << " identical";
    if (phase.p_value) std::cout << ", p = " << *phase.p_value << " against the first";
    std::cout << '\n';
  }
  const replay::LoadFinding load = replay::load_finding(result);
  if (load.differs) std::cout << "the load changes the answers\n";
  if (load.undecided) std::cout << "too few answers to say whether the load changes them\n";
}

/// What answers told of themselves, where they do not agree.
void print_told(const char* name, const std::map<std::string, std::size_t>& counts) {
  constexpr std::size_t kShown = 10;
  if (counts.size() < 2) return;
  std::cout << counts.size() << " different " << name << ":";
  std::size_t shown = 0;
  for (const auto& [told, count] : counts) {
    if (shown == kShown) {
      std::cout << ", ...";
      break;
    }
    std::cout << (shown++ == 0 ? " " : ", ") << count << " x " << printable(told, 60);
  }
  std::cout << '\n';
}

void print_result(const replay::ProbeResult& result) {
  std::cout << result.asked << " asked, " << result.answers.size() << " answered, "
            << result.clustering.clusters.size() << " distinct\n";
  if (result.identical.of > 0) {
    std::cout << "identical: " << result.identical.count << " of " << result.identical.of
              << ", 95 % interval " << result.identical.low << " to " << result.identical.high
              << '\n';
  }
  print_told("models", result.models);
  print_told("finish reasons", result.finish_reasons);
  print_told("system_fingerprints", result.fingerprints);
  print_phases(result);
  for (const replay::Cluster& cluster : result.clustering.clusters) {
    std::cout << "  " << cluster.answers.size() << " x " << cluster.sha256.hex().substr(0, 16);
    if (cluster.first_fork_char) std::cout << " forks at character " << *cluster.first_fork_char;
    std::cout << "  " << printable(cluster.text, 72) << '\n';
  }
  for (const auto& [kind, failure] : result.failures) {
    std::cout << "  " << failure.count << " x " << kind;
    if (!failure.message.empty()) std::cout << ": " << printable(failure.message, kMessageBytesMax);
    std::cout << '\n';
  }
}

/// Different answers are a bad finding; answers that are missing leave the question open.
int exit_code_of(const replay::ProbeResult& result) {
  if (result.clustering.clusters.size() > 1) return kBadFinding;
  return result.failures.empty() ? kDone : kUnfinished;
}

/// Whether what is asked for can be written, and lies outside of the log, and of any other.
Result<void> check_places(const Context& context, const ProbeFlags& flags) {
  for (const std::string& place : {flags.report, flags.csv, flags.metrics, flags.series}) {
    if (place.empty()) continue;
    const bool in_log = lies_in(place, context.data) || (place == flags.series && holds_log(place));
    if (!in_log) continue;
    return Error{Errc::invalid_input, "this would be written into the folder of the log", place,
                 "name another place"};
  }
  if (auto free = check_not_of_a_log(flags.series); !free) return free;
  return check_outputs({flags.report, flags.csv, flags.metrics});
}

int run_probe(const Context& context, ProbeFlags& flags) {
  const auto possible = check_places(context, flags);
  if (!possible) return fail(possible.error());
  if (!flags.series.empty()) return run_probe_series(context, flags);
  if (flags.new_baseline || !flags.metrics.empty() || !flags.prompts_file.empty()) {
    return usage("--prompts, --metrics and --new-baseline are for a series", "give --series DIR");
  }
  if (flags.options.prompt.empty() == flags.request_file.empty()) {
    return usage("one question is needed", "give either --prompt TEXT or --request FILE");
  }
  const auto options = probe_options(flags);
  if (!options) return fail(options.error());
  static const SystemClock clock;
  Progress progress(context.quiet, "asked", clock);
  const auto result = replay::probe(
      *options, clock, [&](std::size_t done, std::size_t of) { progress.show(done, of); });
  progress.clear();
  if (!result) return fail(result.error());
  if (!flags.report.empty()) {
    const auto written = write_output(
        flags.report, replay::probe_report(*result, format_rfc3339(clock.now_us())), 0600);
    if (!written) return fail(written.error());
  }
  if (!flags.csv.empty()) {
    const auto written = write_output(flags.csv, replay::probe_csv(*result), 0600);
    if (!written) return fail(written.error());
  }
  if (context.json) {
    print_json(replay::probe_json(*result));
  } else {
    print_result(*result);
  }
  if (result->answers.empty()) {
    const auto& [kind, failure] = *result->failures.begin();
    return fail(Error{Errc::upstream_failed, "no answer came: " + kind, result->url,
                      failure.message.empty() ? "check the endpoint"
                                              : printable(failure.message, kMessageBytesMax)});
  }
  return exit_code_of(*result);
}

void add_question_options(CLI::App& command, ProbeFlags& flags) {
  replay::ProbeOptions& options = flags.options;
  command.add_option("--url", flags.url, "base URL of the endpoint, http or https")->required();
  command.add_option("--model", options.model, "the model to ask")->check(utf8_text());
  command.add_option("--prompt", options.prompt, "one user's message, asked at temperature 0")
      ->check(utf8_text());
  command.add_option("--request", flags.request_file,
                     "a request's body (JSON), sent as it is; temperature 0 if it has none");
  command.add_option("--api", flags.api, "openai or anthropic")->default_val("openai");
  command.add_option("--api-key-env", flags.api_key_env,
                     "the environment variable that holds the API key");
  command.add_option("--ca-file", flags.ca_file, "certificates to trust (PEM), not the system's");
  command.add_option("--max-tokens", options.max_tokens, "of an answer, with --prompt")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--logprobs", options.logprobs,
                  "ask for so many alternatives a token (OpenAI), to see how near a fork was")
      ->check(CLI::Range(0, 20));
}

void add_series_options(CLI::App& command, ProbeFlags& flags) {
  constexpr double kAlphaMin = 0.0001;  // of 9,999 permutations no smaller p comes
  command.add_option("--series", flags.series,
                     "keep this run in a folder, and compare it with the folder's baseline");
  command.add_option("--prompts", flags.prompts_file,
                     "with --series: a file of questions, one a line, each asked so many times");
  command.add_option("--alpha", flags.alpha, "with --series: the false-positive rate of each test")
      ->check(CLI::Range(kAlphaMin, 0.5))
      ->capture_default_str();
  command.add_flag("--new-baseline", flags.new_baseline,
                   "with --series: what is answered now is what to compare with");
  command.add_option("--metrics", flags.metrics,
                     "with --series: what it says, in Prometheus text format");
}

}  // namespace

void add_probe(CLI::App& app, Context& context) {
  auto flags = std::make_shared<ProbeFlags>();
  replay::ProbeOptions& options = flags->options;
  CLI::App* command = app.add_subcommand(
      "probe", "ask one question many times, and see whether the answers are the same");
  add_question_options(*command, *flags);
  command->add_option("-n,--count", options.count, "so many times in each phase")
      ->check(CLI::Range(std::size_t{1}, kQuestionsMax))
      ->capture_default_str();
  command
      ->add_option("--concurrency", options.concurrency,
                   "at most so many at once; several, with commas, make a phase each")
      ->delimiter(',')
      ->check(CLI::Range(std::size_t{1}, kInFlightMax));
  command
      ->add_option("--neighbours", options.neighbours,
                   "then ask again among so many random other requests")
      ->check(CLI::Range(std::size_t{0}, kInFlightMax));
  command->add_option("--seed", options.seed, "of the neighbours' prompts")->capture_default_str();
  command->add_option("--timeout", flags->timeout_s, "seconds for one answer")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  command->add_option("--report", flags->report, "write a report: one HTML file");
  command->add_option("--csv", flags->csv, "write one line an answer");
  add_series_options(*command, *flags);
  add_common(
      *command, context,
      "verbatim probe --url http://127.0.0.1:8080 --model demo --prompt \"Who are you?\" -n 30");
  command->callback([&context, flags] { context.exit_code = run_probe(context, *flags); });
}

}  // namespace verbatim::cli
