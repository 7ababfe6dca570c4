// The program: reads the command line and hands over to one subcommand.

#include "cli/command.hpp"

#include <exception>
#include <iostream>

namespace {

int run(int argc, char** argv) {
  using namespace verbatim::cli;
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
  add_backup(app, context);
  add_planned(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return usage(error.what(), "see verbatim --help, or --help after a subcommand");
  }
  return context.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "verbatim: " << error.what() << '\n';
    return verbatim::cli::kUnfinished;
  }
}
