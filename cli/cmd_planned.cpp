#include "cli/command.hpp"

#include <array>

namespace verbatim::cli {

namespace {

struct Planned {
  const char* name;
  const char* what;
};

constexpr std::array kPlanned = {
    Planned{"prune", "drop a prefix of the log by the retention policy"},
};

}  // namespace

void add_planned(CLI::App& app, Context& context) {
  for (const Planned& planned : kPlanned) {
    CLI::App* command =
        app.add_subcommand(planned.name, std::string(planned.what) + " (not in this version)");
    command->allow_extras();
    command->prefix_command();
    command->callback(
        [&context, name = planned.name] { context.exit_code = not_in_this_version(name); });
  }
}

}  // namespace verbatim::cli
