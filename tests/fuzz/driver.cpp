// Runs fuzz targets.
//
//   fuzz_targets                              the targets' names
//   fuzz_targets TARGET --write-corpus DIR    its seeds, a file each, and DIR.dict, its dictionary for libFuzzer
//   fuzz_targets TARGET FILE...               these inputs
//   fuzz_targets TARGET [--runs N]            its seeds, and N mutations of them, always the same
//
// Linked with libFuzzer (VERBATIM_LIBFUZZER) the last two are its own: whatever follows the target's name goes to it.
// An input on which the process ends, or that takes longer than kSecondsMax, is left in fuzz-TARGET-crash.

#include "schema/file.hpp"
#include "tests/fuzz/mutator.hpp"
#include "tests/fuzz/target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::fuzz {

namespace {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : targets()) {
    if (name == target.name) return &target;
  }
  return nullptr;
}

int list_targets() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.emplace_back(target.name);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) std::printf("%s\n", name.c_str());
  return 0;
}

/// As libFuzzer reads it: one word a line, in quotes, with \xHH for what is not printable.
std::string dictionary_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += '"';
    for (const char c : word) {
      const auto byte = static_cast<std::uint8_t>(c);
      if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7f) {
        text += "\\x" + to_hex({&byte, 1});
      } else {
        text += c;
      }
    }
    text += "\"\n";
  }
  return text;
}

int write_corpus(const Target& target, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const std::string& seed : target.seeds()) {
    write_file(folder / ("seed-" + std::to_string(number++)), seed).value();
  }
  write_file(folder.string() + ".dict", dictionary_text(target.dictionary)).value();
  return 0;
}

}  // namespace

Registration::Registration(Target target) { targets().push_back(std::move(target)); }

#ifdef VERBATIM_LIBFUZZER

namespace {
const Target* chosen = nullptr;
}

/// Takes the target's name off the command line; the rest is libFuzzer's.
int choose_target(int& argc, char**& argv) {
  if (argc < 2) std::exit(list_targets());
  chosen = find_target(argv[1]);
  if (chosen == nullptr) {
    std::fprintf(stderr, "no target %s\n", argv[1]);
    std::exit(2);
  }
  if (argc == 4 && std::string_view(argv[2]) == "--write-corpus") {
    std::exit(write_corpus(*chosen, argv[3]));
  }
  std::copy(argv + 2, argv + argc + 1, argv + 1);
  --argc;
  return 0;
}

#else

namespace {

constexpr unsigned kSecondsMax = 20;
constexpr std::size_t kRuns = 500;
// A run ends here even where its mutations are not done: how far a slow machine comes is not what is tested.
constexpr std::chrono::seconds kRunMax{3};

std::string crash_file;
std::string_view running;

/// Only what a signal handler may do.
void keep_input() {
  const int file = ::open(crash_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  const bool written =
      ::write(file, running.data(), running.size()) == static_cast<ssize_t>(running.size());
  ::close(file);
  constexpr std::string_view kSaid = "fuzz: the input is kept in ";
  if (written && ::write(2, kSaid.data(), kSaid.size()) > 0 &&
      ::write(2, crash_file.data(), crash_file.size()) > 0) {
    (void)!::write(2, "\n", 1);
  }
}

void on_signal(int signal) {
  keep_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer's name.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

void run_one(const Target& target, std::string_view input) {
  running = input;
  ::alarm(kSecondsMax);
  // A copy of its own, so that a byte beyond the end is seen.
  const std::vector<char> copy(input.begin(), input.end());
  target.run({copy.data(), copy.size()});
  ::alarm(0);
}

int replay(const Target& target, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const auto input = read_file(file, 1u << 30);
    if (!input) {
      std::fprintf(stderr, "%s\n", input.error().message().c_str());
      return 2;
    }
    run_one(target, *input);
  }
  return 0;
}

int run_mutations(const Target& target, std::size_t runs, std::chrono::seconds time_max) {
  const auto end = std::chrono::steady_clock::now() + time_max;
  const std::vector<std::string> seeds = target.seeds();
  for (const std::string& seed : seeds) run_one(target, seed);
  Mutator mutator(seeds, target.dictionary);
  std::size_t done = 0;
  while (done < runs && std::chrono::steady_clock::now() < end) {
    const std::string input = mutator.next();
    run_one(target, input);
    ++done;
  }
  std::printf("%s: %zu seeds, %zu of %zu mutations\n", target.name, seeds.size(), done, runs);
  return 0;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return list_targets();
  const Target* const target = find_target(arguments[0]);
  if (target == nullptr) {
    std::fprintf(stderr, "no target %s\n", arguments[0].c_str());
    return 2;
  }
  if (arguments.size() == 3 && arguments[1] == "--write-corpus") {
    return write_corpus(*target, arguments[2]);
  }
  crash_file = "fuzz-" + arguments[0] + "-crash";
  for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, on_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_input);
  } else {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_signal);
  }
  if (arguments.size() == 1) return run_mutations(*target, kRuns, kRunMax);
  if (arguments.size() == 3 && arguments[1] == "--runs") {
    return run_mutations(*target, std::strtoul(arguments[2].c_str(), nullptr, 10),
                         std::chrono::hours(24));
  }
  return replay(*target, {arguments.begin() + 1, arguments.end()});
}

#endif

}  // namespace verbatim::fuzz

#ifdef VERBATIM_LIBFUZZER
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  return verbatim::fuzz::choose_target(*argc, *argv);
}
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::fuzz::chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
int main(int argc, char** argv) { return verbatim::fuzz::run_program({argv + 1, argv + argc}); }
#endif
