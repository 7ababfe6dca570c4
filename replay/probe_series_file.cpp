// A series as files: one run a file, named by its time.

#include "replay/probe_series.hpp"
#include "schema/clock.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace verbatim::replay {

namespace {

constexpr std::uint64_t kRunBytesMax = 512u << 20;
constexpr std::size_t kAskedMax = 10'000;  // of a phase: one text each is made of them
constexpr const char* kFormat = "verbatim-probe-run/1";

Error no_run(const std::string& what) {
  return {Errc::invalid_input, "not a run of a probe: " + what, "", ""};
}

/// Refuses what it is asked for and does not find; the first refusal stays.
class RunReader {
 public:
  /// Null if a member is missing or of another kind.
  const Json* member(const Json& object, const char* name, Json::value_t kind) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (object.is_object() && found != object.end() && found->type() == kind) return &*found;
    wrong(name);
    return nullptr;
  }
  std::string text(const Json& object, const char* name) {
    const Json* found = member(object, name, Json::value_t::string);
    return found == nullptr ? "" : found->get<std::string>();
  }
  std::uint64_t number(const Json& object, const char* name) {
    const Json* found = member(object, name, Json::value_t::number_unsigned);
    return found == nullptr ? 0 : count(*found, name);
  }
  double decimal(const Json& object, const char* name) {
    const std::string shown = text(object, name);
    double value = 0;
    const auto [end, error] = std::from_chars(shown.data(), shown.data() + shown.size(), value);
    if (error != std::errc() || end != shown.data() + shown.size() || !std::isfinite(value)) {
      wrong(name);
    }
    return value;
  }
  /// Of 64 bits, as text: JSON's numbers would not hold it.
  std::uint64_t seed(const Json& object, const char* name) {
    const std::string shown = text(object, name);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(shown.data(), shown.data() + shown.size(), value);
    if (error != std::errc() || end != shown.data() + shown.size()) wrong(name);
    return value;
  }
  std::int64_t time(const Json& object, const char* name) {
    const auto value = parse_rfc3339(text(object, name));
    if (!value) wrong(name);
    return value ? *value : 0;
  }
  const Json& list(const Json& object, const char* name) {
    static const Json kNone = Json::array();
    const Json* found = member(object, name, Json::value_t::array);
    return found == nullptr ? kNone : *found;
  }
  std::vector<std::string> texts(const Json& object, const char* name) {
    std::vector<std::string> all;
    for (const Json& each : list(object, name)) {
      if (!each.is_string()) wrong(name);
      all.push_back(each.is_string() ? each.get<std::string>() : "");
    }
    return all;
  }
  std::map<std::string, std::size_t> counts(const Json& object, const char* name) {
    std::map<std::string, std::size_t> all;
    const Json* found = member(object, name, Json::value_t::object);
    if (found == nullptr) return all;
    for (const auto& [key, value] : found->items()) all[key] = count(value, name);
    return all;
  }
  void wrong(const char* name) {
    if (fault_.empty()) fault_ = std::string("no proper '") + name + "'";
  }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  /// As canonical JSON can write it again.
  std::uint64_t count(const Json& value, const char* name) {
    constexpr std::uint64_t kCountMax = std::uint64_t{1} << 53;
    const std::uint64_t number = value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
    if (!value.is_number_unsigned() || number > kCountMax) wrong(name);
    return number;
  }

  std::string fault_;
};

SeriesPhase read_phase(RunReader& read, const Json& json, std::size_t texts) {
  SeriesPhase phase;
  phase.concurrency = read.number(json, "concurrency");
  phase.neighbours = read.number(json, "neighbours");
  phase.asked = read.number(json, "asked");
  if (phase.asked > kAskedMax) read.wrong("asked");
  for (const Json& answer : read.list(json, "answers")) {
    const auto place = answer.is_number_unsigned() ? answer.get<std::size_t>() : texts;
    if (place < texts) {
      phase.answers.push_back(place);
    } else {
      read.wrong("answers");
    }
  }
  return phase;
}

SeriesQuestion read_question(RunReader& read, const Json& json) {
  SeriesQuestion question;
  question.request = read.text(json, "request");
  question.texts = read.texts(json, "texts");
  for (const Json& phase : read.list(json, "phases")) {
    question.phases.push_back(read_phase(read, phase, question.texts.size()));
  }
  return question;
}

SeriesTest read_test(RunReader& read, const Json& json) {
  SeriesTest test;
  test.result.mmd2 = read.decimal(json, "mmd2");
  test.result.p_value = read.decimal(json, "p_value");
  test.result.before = read.number(json, "before");
  test.result.now = read.number(json, "now");
  test.alpha = read.decimal(json, "false_positive_rate");
  test.permutations = read.number(json, "permutations");
  test.seed = read.seed(json, "seed");
  if (json.contains("smallest_p_value")) {
    test.smallest_p_value = read.decimal(json, "smallest_p_value");
  }
  return test;
}

Json question_json(const SeriesQuestion& question) {
  Json phases = Json::array();
  for (const SeriesPhase& phase : question.phases) {
    phases.push_back({{"concurrency", phase.concurrency},
                      {"neighbours", phase.neighbours},
                      {"asked", phase.asked},
                      {"answers", phase.answers}});
  }
  return {{"request", question.request}, {"texts", question.texts}, {"phases", std::move(phases)}};
}

Json test_json(const SeriesTest& test) {
  return {{"mmd2", ecmascript_number(test.result.mmd2)},
          {"p_value", ecmascript_number(test.result.p_value)},
          {"before", test.result.before},
          {"now", test.result.now},
          {"false_positive_rate", ecmascript_number(test.alpha)},
          {"permutations", test.permutations},
          {"seed", std::to_string(test.seed)},
          {"smallest_p_value", ecmascript_number(test.smallest_p_value)}};
}

/// "20261130T014300.123456Z.json": in the order of time, and a file name everywhere.
std::string name_of(std::int64_t time_us) {
  std::string name = format_rfc3339(time_us);
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c == '-' || c == ':'; }),
             name.end());
  return name + ".json";
}

}  // namespace

std::string format_run(const SeriesRun& run) {
  Json questions = Json::array();
  for (const SeriesQuestion& question : run.questions) questions.push_back(question_json(question));
  Json json = {{"format", kFormat},
               {"time", format_rfc3339(run.time_us)},
               {"baseline", format_rfc3339(run.baseline_us)},
               {"url", run.url},
               {"api", run.api},
               {"model", run.model},
               {"questions", std::move(questions)},
               {"fingerprints", run.fingerprints},
               {"models", run.models},
               {"finish_reasons", run.finish_reasons},
               {"failures", run.failures},
               {"new_fingerprints", run.new_fingerprints},
               {"new_models", run.new_models},
               {"new_finish_reasons", run.new_finish_reasons}};
  if (run.test) json["test"] = test_json(*run.test);
  if (run.answered_test) json["answered_test"] = test_json(*run.answered_test);
  return canonical(json) + "\n";
}

Result<SeriesRun> parse_run(std::string_view text) {
  const auto json = parse_json(text);
  if (!json) return no_run(json.error().what);
  RunReader read;
  if (const std::string format = read.text(*json, "format"); format != kFormat) {
    const bool newer = format.starts_with("verbatim-probe-run/");
    return Error{
        newer ? Errc::newer_version : Errc::invalid_input,
        "the run's format is '" + format.substr(0, 64) + "', this verbatim knows " + kFormat, "",
        ""};
  }
  SeriesRun run;
  run.time_us = read.time(*json, "time");
  run.baseline_us = read.time(*json, "baseline");
  run.url = read.text(*json, "url");
  run.api = read.text(*json, "api");
  run.model = read.text(*json, "model");
  for (const Json& question : read.list(*json, "questions")) {
    run.questions.push_back(read_question(read, question));
  }
  run.fingerprints = read.counts(*json, "fingerprints");
  run.failures = read.counts(*json, "failures");
  run.new_fingerprints = read.texts(*json, "new_fingerprints");
  if (json->contains("test")) run.test = read_test(read, (*json)["test"]);
  // Runs of earlier versions lack what follows.
  if (json->contains("answered_test")) {
    run.answered_test = read_test(read, (*json)["answered_test"]);
  }
  if (json->contains("models")) run.models = read.counts(*json, "models");
  if (json->contains("finish_reasons")) {
    run.finish_reasons = read.counts(*json, "finish_reasons");
  }
  if (json->contains("new_models")) run.new_models = read.texts(*json, "new_models");
  if (json->contains("new_finish_reasons")) {
    run.new_finish_reasons = read.texts(*json, "new_finish_reasons");
  }
  if (!read.fault().empty()) return no_run(read.fault());
  return run;
}

Result<std::vector<SeriesRun>> read_series(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  std::filesystem::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return std::vector<SeriesRun>();
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    // What write_file() leaves when it is cut off has another ending.
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  }
  if (error) {
    return Error{Errc::storage_failed, "cannot read the folder: " + error.message(),
                 folder.string(), ""};
  }
  std::sort(files.begin(), files.end());
  std::vector<SeriesRun> runs;
  for (const std::filesystem::path& file : files) {
    const auto text = read_file(file, kRunBytesMax);
    if (!text) return text.error();
    auto run = parse_run(*text);
    if (!run) {
      Error wrong = run.error();
      wrong.where = file.string();
      wrong.advice = "a series is a folder of its own";
      return wrong;
    }
    runs.push_back(std::move(*run));
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const SeriesRun& a, const SeriesRun& b) { return a.time_us < b.time_us; });
  return runs;
}

Result<audit::FolderLock> lock_series(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{Errc::storage_failed, "cannot make the folder: " + error.message(),
                 folder.string(), ""};
  }
  auto lock = audit::FolderLock::take(folder);
  if (lock || lock.error().code != Errc::unavailable) return lock;
  return Error{Errc::unavailable, "another run of this series is under way", folder.string(),
               "wait until it has ended"};
}

Result<void> check_is_newest(const std::vector<SeriesRun>& runs, std::int64_t time_us) {
  if (runs.empty() || runs.back().time_us < time_us) return {};
  return Error{Errc::invalid_input, "the series has a later run already",
               format_rfc3339(runs.back().time_us), "is the clock right?"};
}

Result<void> append_run(const std::filesystem::path& folder, const SeriesRun& run) {
  // Answers may be anybody's words.
  return write_file(folder / name_of(run.time_us), format_run(run), 0600);
}

}  // namespace verbatim::replay
