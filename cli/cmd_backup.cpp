// verbatim backup: a copy of the log that verifies, made while it is written.

#include "audit/backup.hpp"
#include "audit/log.hpp"
#include "cli/command.hpp"
#include "cli/show_text.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

/// Contents, or what could open them, leave the folder: that is recorded before they do. What is returned keeps the log
/// open: nobody else begins to write it in the middle of the copy.
Result<std::unique_ptr<audit::Appender>> record_backup(const Context& context,
                                                       const audit::BackupOptions& options) {
  static const SystemClock clock;
  auto appender = audit::open_appender(context.data, clock, warn);
  if (!appender) return appender.error();
  audit::LeafDraft draft;
  draft.type = "backup";
  const std::string name = options.out.filename().string().substr(0, 128);
  draft.fields = {{"out", is_utf8(name) ? name : ""}, {"keys", options.keys}, {"actor", actor()}};
  const auto appended = (*appender)->append_and_wait(std::move(draft));
  if (!appended) return appended.error();
  return std::move(*appender);
}

int run_backup(const Context& context, const audit::BackupOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(options.out, ignored)) {
    return fail(Error{Errc::invalid_input, "something is at this place already",
                      options.out.string(), "name a new folder"});
  }
  if (const auto free = check_not_of_a_log(options.out); !free) return fail(free.error());
  const auto recorded = record_backup(context, options);
  if (!recorded) return fail(recorded.error());
  audit::BackupOptions now = options;
  now.made_us = SystemClock().now_us();
  const auto report = audit::back_up(context.data, now);
  if (!report) return fail(report.error());
  if (context.json) {
    print_json({{"out", options.out.string()},
                {"size", report->size},
                {"root", report->root.hex()},
                {"bytes", report->bytes},
                {"keys", options.keys}});
  } else {
    std::cout << "wrote " << one_line(options.out.string()) << ": " << report->size
              << " leaves, verified"
              << (options.keys ? ", with all keys\n" : "; without keys its contents stay sealed\n");
  }
  return kDone;
}

}  // namespace

void add_backup(CLI::App& app, Context& context) {
  auto options = std::make_shared<audit::BackupOptions>();
  CLI::App* backup =
      app.add_subcommand("backup", "a verified copy of the log, made while it is written");
  backup->add_option("OUT", options->out, "a new folder")->required();
  backup->add_flag("--keys", options->keys,
                   "also the keys: contents can be read from it, and a log can go on from it");
  add_common(*backup, context, "verbatim backup /backups/2026-11-29");
  backup->callback([&context, options] { context.exit_code = run_backup(context, *options); });
}

}  // namespace verbatim::cli
