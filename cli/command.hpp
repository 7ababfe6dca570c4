#pragma once
// What all subcommands share: global options, exit codes, and the one form of an error line.
//
// Data goes to stdout, words to stderr. With --json, stdout holds one JSON object and nothing else.

#include "audit/timestamp.hpp"
#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::cli {

/// Exit codes: the contract with scripts.
inline constexpr int kDone = 0;        ///< done, and all is well
inline constexpr int kBadFinding = 1;  ///< done, and the finding is bad: not valid, diverged
inline constexpr int kUsage = 2;       ///< usage or bad input
inline constexpr int kUnfinished = 3;  ///< could not finish: I/O, log not writable, upstream down

/// Options that every subcommand takes, and where its exit code goes.
struct Context {
  std::string data = "./verbatim-data";
  bool data_given = false;  // by --data or VERBATIM_DATA: that goes before the configuration's
  std::string config;
  std::string config_text;  // of the file that --config names, read once
  bool json = false;
  bool quiet = false;
  int exit_code = kDone;
};

/// A mistake found while options are read, as the error that it is.
class Refused : public CLI::ParseError {
 public:
  explicit Refused(verbatim::Error error)
      : CLI::ParseError("verbatim", error.message(), kUsage), error_(std::move(error)) {}
  [[nodiscard]] const verbatim::Error& error() const { return error_; }

 private:
  verbatim::Error error_;
};

/// Adds --data, --config, --json, --quiet and an example to a subcommand. A configuration is read and checked whatever the
/// command, and says where the log is unless --data does.
void add_common(CLI::App& command, Context& context, const std::string& example);

/// Prints `verbatim: what (where): advice` on stderr and returns the exit code for its kind.
int fail(const Error& error);
/// The same for a mistake in the command line.
int usage(const std::string& what, const std::string& advice);

/// Prints `verbatim: warning: ...` on stderr, whatever --quiet says.
void warn(const std::string& text);

/// For what the contract has and this version has not.
int not_in_this_version(const std::string& what);

/// One JSON value on a line on stdout. Floats print as the shortest decimal that reads back.
void print_json(const OrderedJson& value);

/// For options with a whole number from `min` to `max`: "-1" and what is too large are refused, not wrapped around.
[[nodiscard]] CLI::Validator whole_number(std::uint64_t min = 0,
                                          std::uint64_t max = std::uint64_t{1} << 53);
inline constexpr std::uint64_t kThreadsMax = 1024;
/// For --seed: any u64.
inline constexpr std::uint64_t kSeedMax = UINT64_MAX;
/// For --status: how an exchange can have ended.
[[nodiscard]] CLI::Validator exchange_status();

/// For texts that go into a leaf.
[[nodiscard]] CLI::Validator utf8_text();

/// Opens NAME=VALUE.
[[nodiscard]] Result<std::pair<std::string, std::string>> split_assignment(const std::string& text);

/// Who asks, for leaves that name an actor: uid and user name, bounded.
[[nodiscard]] std::string actor();

/// Comma-separated token ids.
[[nodiscard]] Result<std::vector<std::int32_t>> parse_ids(const std::string& text);

/// A whole regular file, stdin for "-", or a pipe of the shell's, <(...). At most 64 MiB. `invalid_input`: a FIFO, a device.
[[nodiscard]] Result<std::string> read_text(const std::string& path);

/// The same for what an option names: `invalid_input` if it is empty or blank. An empty text would be taken for an option
/// that was not given, and so for a check that nobody asked for.
[[nodiscard]] Result<std::string> read_input(const std::string& path);

/// A signed note in such a file, as people copy it: line ends of another system, and more of them at the end than a note
/// has, are taken away.
[[nodiscard]] Result<std::string> read_note(const std::string& path);

/// Whether a folder is that of a log.
[[nodiscard]] bool holds_log(const std::filesystem::path& folder);
/// `invalid_input` for a place that belongs to a log or a witness. To be asked of every folder that an option names to be
/// made; for files check_outputs() and write_output() ask.
[[nodiscard]] Result<void> check_not_of_a_log(const std::filesystem::path& place);

/// write_file() for a file that an option names: never over a part of a log.
[[nodiscard]] Result<void> write_output(const std::filesystem::path& file, std::string_view bytes,
                                        unsigned mode = 0644);

/// Whether each of these files, "" for none, could be written. To be asked before work that cannot be taken back.
[[nodiscard]] Result<void> check_outputs(std::initializer_list<std::string> files);

/// A public key is given as itself, or as a file that holds it.
[[nodiscard]] Result<std::string> read_key(const std::string& key);

/// The newest checkpoint of at least `size_min` leaves that witnesses cosigned. `not_found` if there is none.
[[nodiscard]] Result<std::string> newest_cosigned(const Context& context, std::uint64_t size_min);

/// The oldest stamped checkpoint of at least `size_min` leaves: the tightest bound on their time. `not_found`.
[[nodiscard]] Result<audit::Timestamp> oldest_stamped(const Context& context,
                                                      std::uint64_t size_min);

/// Where the bundled demo model is: `VERBATIM_DEMO_MODEL`, beside the program, or in the source tree that it
/// was built from. `not_found` says which places were tried.
[[nodiscard]] Result<std::filesystem::path> demo_model_path();
/// The model that --model names, or the demo model where it names none.
[[nodiscard]] Result<std::filesystem::path> model_or_demo(const std::string& model);

/// --model, where the command takes one model.
void add_model_option(CLI::App& command, std::string& model);

/// Options for the engine that several subcommands take.
struct EngineFlags {
  std::string model, profile = "f32-k256/1", backend = "auto", cuda_fallback = "refuse";
  int threads = 0;
  std::size_t prefill_chunk = 256;
  bool no_prefix_cache = false;
  void add(CLI::App& command);
};

void add_gateway(CLI::App& app, Context& context);
void add_log(CLI::App& app, Context& context);
void add_keys(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_model(CLI::App& app, Context& context);
void add_engine(CLI::App& app, Context& context);
void add_probe(CLI::App& app, Context& context);
void add_replay(CLI::App& app, Context& context);
void add_backup(CLI::App& app, Context& context);
void add_erase(CLI::App& app, Context& context);
void add_hold(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_witness(CLI::App& app, Context& context);
void add_timestamp(CLI::App& app, Context& context);
void add_prune(CLI::App& app, Context& context);

}  // namespace verbatim::cli
