// The program: reads the command line and hands over to one subcommand.

#include "cli/command.hpp"
#ifdef VERBATIM_HAVE_CUDA
#include "local_engine/cuda/backend.hpp"
#endif

#include <malloc.h>

#include <exception>
#include <iostream>

namespace {

using namespace verbatim::cli;

/// An empty value is no value: "--key $(cat key)" with the file missing must not mean "whatever key". Only a prompt may be
/// empty.
void refuse_empty_values(CLI::App& command) {
  const CLI::Validator not_empty(
      [](const std::string& value) { return value.empty() ? "the value is empty" : ""; }, "");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() > 0 && option->get_name() != "--prompt") {
      option->check(not_empty);
    }
  }
  for (CLI::App* each : command.get_subcommands([](CLI::App*) { return true; })) {
    refuse_empty_values(*each);
  }
}

/// The subcommand that was named, as it is typed: "verbatim log show".
std::string named_command(const CLI::App& app) {
  std::string name = "verbatim";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

/// What CLI11 has to say; of words that it does not know, which they are.
int complain(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto* refused = dynamic_cast<const Refused*>(&error)) return fail(refused->error());
  const std::string advice = "see " + named_command(app) + " --help";
  const auto unknown = app.remaining(/*recurse=*/true);
  const bool about_words = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                           dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (about_words && !unknown.empty()) {
    const bool option = unknown.front().starts_with('-');
    return usage("there is no '" + unknown.front() + "' here",
                 (option ? "options come after the command that has them; " : "") + advice);
  }
  return usage(error.what(), advice);
}

/// What was printed must have arrived: a checkpoint that is kept in a file on a full disk is none.
int with_output_written(int exit_code) {
  std::cout.flush();
  if (std::cout) return exit_code;
  return fail(verbatim::Error{verbatim::Errc::storage_failed, "the output could not be written",
                              "standard output", "is it open, and is there room?"});
}

int run(int argc, char** argv) {
  CLI::App app{
      "Verbatim: an auditing proxy gateway for LLM traffic.\n"
      "Records every exchange in a tamper-evident log, replays it bit for bit, and exports "
      "evidence."};
  app.name("verbatim");
  app.set_version_flag("--version", std::string("verbatim ") + VERBATIM_VERSION);
  app.footer(
      "Exit codes: 0 done and well; 1 done, and the finding is bad; 2 usage or bad input; 3 could "
      "not finish.\n"
      "Example:\n  verbatim gateway --listen 127.0.0.1:8080");
  app.require_subcommand(1);
  Context context;
  add_gateway(app, context);
  add_log(app, context);
  add_keys(app, context);
  add_verify(app, context);
  add_model(app, context);
  add_engine(app, context);
  add_replay(app, context);
  add_probe(app, context);
  add_export(app, context);
  add_erase(app, context);
  add_hold(app, context);
  add_witness(app, context);
  add_timestamp(app, context);
  add_backup(app, context);
  add_prune(app, context);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return complain(app, error);
  }
  return with_output_written(context.exit_code);
}

/// malloc gives its heap's end back to the system as soon as 128 KiB of it are free, and the system clears each page that it
/// gives again: who reads bodies one after the other pays more for that than for all he does with them. So much may stay.
void keep_freed_memory() {
  constexpr int kKept = 64 << 20, kMappedFrom = 32 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kKept);
  ::mallopt(M_MMAP_THRESHOLD, kMappedFrom);
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
#ifdef VERBATIM_HAVE_CUDA
  verbatim::local_engine::provide(verbatim::local_engine::cuda::backend());
#endif
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(verbatim::Error{verbatim::Errc::unavailable, error.what(), "", ""});
  }
}
