#include "cli/command.hpp"

#include "cli/show_text.hpp"
#include "gateway/config.hpp"
#include "schema/bytes.hpp"
#include "schema/file.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>

namespace verbatim::cli {

std::string actor() {
  const char* user = std::getenv("USER");
  std::string who = "uid " + std::to_string(::getuid());
  if (user != nullptr && is_utf8(user)) who += std::string(" ") + user;
  return who.size() <= 128 ? who : "uid " + std::to_string(::getuid());
}

namespace {

void read_config(Context& context) {
  if (context.config.empty()) return;
  auto text = read_input(context.config);
  if (!text) throw Refused(text.error());
  const auto config = gateway::parse_config(*text, context.config);
  if (!config) throw Refused(config.error());
  context.config_text = std::move(*text);
  if (!context.data_given && !config->data.empty()) context.data = config->data.string();
}

}  // namespace

void add_common(CLI::App& command, Context& context, const std::string& example) {
  command.add_option("--data", context.data, "folder of the log")
      ->envname("VERBATIM_DATA")
      ->each([&context](const std::string&) { context.data_given = true; })
      ->capture_default_str();
  command.add_option("--config", context.config, "configuration file (TOML)");
  command.parse_complete_callback([&context] { read_config(context); });
  command.add_flag("--json", context.json, "one JSON object on stdout, and nothing else there");
  command.add_flag("--quiet", context.quiet, "no progress");
  command.footer("Example:\n  " + example);
}

namespace {

int exit_code_of(Errc code) {
  switch (code) {
    case Errc::invalid_input:
    case Errc::not_found:
    case Errc::unsupported:
    case Errc::newer_version:
      return kUsage;
    case Errc::tampered:
    case Errc::out_of_range:
    case Errc::erased:
      return kBadFinding;
    case Errc::storage_failed:
    case Errc::in_doubt:
    case Errc::unavailable:
    case Errc::upstream_failed:
    case Errc::cancelled:
      return kUnfinished;
  }
  return kUnfinished;
}

}  // namespace

int fail(const Error& error) {
  std::string line = error.message();
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // one line, whatever the input held
  }
  std::cerr << "verbatim: " << one_line(line) << '\n';
  return exit_code_of(error.code);
}

int usage(const std::string& what, const std::string& advice) {
  return fail(Error{Errc::invalid_input, what, "", advice});
}

void warn(const std::string& text) { std::cerr << "verbatim: warning: " << one_line(text) << '\n'; }

int not_in_this_version(const std::string& what) {
  return fail(Error{Errc::unsupported, "'" + what + "' is not in this version",
                    std::string("verbatim ") + VERBATIM_VERSION,
                    "docs/roadmap.md says what stands in for it"});
}

void print_json(const OrderedJson& value) {
  std::cout << value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
  std::cout.flush();
}

bool holds_log(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "high-water", ignored);
}

namespace {

/// A name that a log or a witness gives to its own, or that SQLite gives to what lies beside their databases: what is
/// written there is lost, or is taken for theirs, whether there is such a file now or not.
bool is_of_a_log(const std::filesystem::path& file) {
  std::error_code ignored;
  auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(file), ignored);
  if (place.filename().empty()) place = place.parent_path();  // "folder/"
  const std::string name = place.filename().string();
  constexpr std::array<const char*, 5> kSigns = {"log.db", "keys.db", "high-water", "witness.db",
                                                 "witness.key"};
  const auto is_a_log = [&](const std::filesystem::path& folder) {
    return std::any_of(kSigns.begin(), kSigns.end(), [&](const char* sign) {
      return std::filesystem::exists(folder / sign, ignored);
    });
  };
  const std::filesystem::path folder = place.parent_path();
  if (folder.filename() == "cosigned" && is_a_log(folder.parent_path())) return true;
  if (!is_a_log(folder)) return false;
  return name.starts_with("log.db") || name.starts_with("keys.db") ||
         name.starts_with("witness.db") || name.ends_with(".key") ||
         name.starts_with("high-water") || name == "lock" || name == "models.json" ||
         name == "cosigned" || name.ends_with(".sock");
}

}  // namespace

Result<void> check_not_of_a_log(const std::filesystem::path& place) {
  if (place.empty() || !is_of_a_log(place)) return {};
  return Error{Errc::invalid_input, "this file is a part of a log", place.string(),
               "choose another place"};
}

Result<void> write_output(const std::filesystem::path& file, std::string_view bytes,
                          unsigned mode) {
  if (auto free = check_not_of_a_log(file); !free) return free;
  return write_file(file, bytes, mode);
}

Result<void> check_outputs(std::initializer_list<std::string> files) {
  std::set<std::filesystem::path> places;
  for (const std::string& file : files) {
    if (file.empty()) continue;
    if (!places.insert(std::filesystem::absolute(file).lexically_normal()).second) {
      return Error{Errc::invalid_input, "two outputs go to the same file", file,
                   "give each its own"};
    }
    if (auto free = check_not_of_a_log(file); !free) return free;
    if (auto possible = check_can_write(file); !possible) return possible;
  }
  return {};
}

CLI::Validator whole_number(std::uint64_t min, std::uint64_t max) {
  return CLI::Validator(
      [min, max](const std::string& text) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (whole && value >= min && value <= max) return std::string();
        return "'" + text + "' is not a whole number from " + std::to_string(min) + " to " +
               std::to_string(max);
      },
      "");
}

CLI::Validator exchange_status() {
  return CLI::IsMember({"complete", "cache_hit", "client_disconnect", "upstream_error",
                        "upstream_truncated", "timeout", "rejected", "gateway_error", "interrupted",
                        "open"});
}

CLI::Validator utf8_text() {
  return CLI::Validator(
      [](const std::string& text) { return is_utf8(text) ? "" : "the text is not valid UTF-8"; },
      "");
}

Result<std::pair<std::string, std::string>> split_assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return Error{Errc::invalid_input, "'" + text + "' is not NAME=VALUE", "",
                 "write for example demo=./model"};
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<std::vector<std::int32_t>> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    while (at < end && (*at == ' ' || *at == ',')) ++at;
    if (at == end) break;
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (next < end && *next != ',' && *next != ' ')) {
      return Error{Errc::invalid_input, "'" + text.substr(0, 80) + "' is not a list of token ids",
                   "", "write ids with commas between them: 1,403,407"};
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

namespace {

/// Without the white space around it, which no key has.
std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Result<std::string> read_key(const std::string& key) {
  std::error_code ignored;
  const bool file = std::filesystem::exists(key, ignored);
  if (key.empty() || (key.find('+') != std::string::npos && !file)) return trimmed(key);
  if (!file && key != "-") {
    return Error{Errc::invalid_input,
                 "neither a public key (NAME+HASH+BASE64) nor a file that holds one",
                 key.substr(0, 256), "verbatim keys list prints the log's"};
  }
  auto text = read_input(key);
  if (!text) return text.error();
  return trimmed(*text);
}

namespace {

/// The shell's <(...), or /dev/stdin: a pipe that was opened for this process. One that has a name in a folder waits for
/// whoever may write to it, or for ever.
bool is_open_pipe(const std::string& path) {
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 && info.f_type == PIPEFS_MAGIC;
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  constexpr std::uint64_t kInputBytesMax = 64u << 20;
  const bool pipe = path != "-" && is_open_pipe(path);
  if (path != "-" && !pipe) return read_file(path, kInputBytesMax);
  std::ifstream file;
  if (pipe) file.open(path);
  std::istream& input = pipe ? static_cast<std::istream&>(file) : std::cin;
  std::string text, chunk(1 << 16, '\0');
  while (input.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), input.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(input.gcount()));
    if (text.size() > kInputBytesMax) {
      return Error{Errc::invalid_input, "the input holds more than 64 MiB", path, ""};
    }
  }
  return text;
}

Result<std::string> read_input(const std::string& path) {
  auto text = read_text(path);
  if (text && text->find_first_not_of(" \t\r\n\v\f") == std::string::npos) {
    return Error{Errc::invalid_input, "nothing is in this file", path,
                 "what an option names must be there; leave the option out to do without it"};
  }
  return text;
}

Result<std::string> read_note(const std::string& path) {
  auto text = read_input(path);
  if (!text) return text;
  std::erase(*text, '\r');
  while (text->ends_with("\n\n")) text->pop_back();
  return text;
}

Result<std::filesystem::path> demo_model_path() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<fs::path> places;
  if (const char* named = std::getenv("VERBATIM_DEMO_MODEL"); named != nullptr) {
    places.emplace_back(named);
  } else {
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    places.push_back(program.parent_path() / "../share/verbatim/demo-model");
    for (fs::path up = program.parent_path(); up.has_relative_path(); up = up.parent_path()) {
      places.push_back(up / "local_engine/demo/model");
    }
  }
  std::string tried;
  for (const fs::path& place : places) {
    if (fs::exists(place / "config.json", ignored)) return place.lexically_normal();
    tried = tried.empty() ? place.lexically_normal().string() : tried;
  }
  return Error{Errc::not_found, "the bundled demo model is not there", tried,
               "set VERBATIM_DEMO_MODEL to its folder, or name a model with --model NAME=PATH"};
}

Result<std::filesystem::path> model_or_demo(const std::string& model) {
  if (model.empty()) return demo_model_path();
  return std::filesystem::path(model);
}

void add_model_option(CLI::App& command, std::string& model) {
  command.add_option("--model", model,
                     "Hugging Face folder or .gguf; default: the bundled demo model");
}

void EngineFlags::add(CLI::App& command) {
  add_model_option(command, model);
  command.add_option("--profile", profile, "f32-k256/1 or mma-hopper/1: other bits")
      ->capture_default_str();
  command
      .add_option("--backend", backend,
                  "scalar, avx2, avx512 or auto (of the processor), or cuda: the same bits")
      ->capture_default_str();
  command
      .add_option("--cuda-fallback", cuda_fallback,
                  "where the CUDA device cannot serve: refuse, or cpu, with the same bits")
      ->check(CLI::IsMember({"refuse", "cpu"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "0: all cores")->check(whole_number(0, kThreadsMax));
  command.add_option("--prefill-chunk", prefill_chunk, "prompt tokens a pass")
      ->check(whole_number(1, 1u << 20))
      ->capture_default_str();
  command.add_flag("--no-prefix-cache", no_prefix_cache, "compute every prompt from its start");
}

}  // namespace verbatim::cli
