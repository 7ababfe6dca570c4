// verbatim export: evidence for somebody who trusts nobody here.

#include "audit/export.hpp"
#include "cli/append_leaf.hpp"
#include "cli/show_text.hpp"
#include "gateway/header_rules.hpp"
#include "schema/digest.hpp"

#include <kVerifyPy.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

/// What leaves commit to: schema/leaf.md.
constexpr std::array<std::string_view, 20> kFields = {"request.body",
                                                      "request.headers",
                                                      "request.target",
                                                      "request.digest",
                                                      "response.body",
                                                      "response.headers",
                                                      "response.events",
                                                      "response.tokens",
                                                      "response.layers",
                                                      "response.fingerprint",
                                                      "response.observed",
                                                      "response.digest",
                                                      "upstream.body",
                                                      "websocket.client",
                                                      "websocket.upstream",
                                                      "websocket.client.digest",
                                                      "websocket.upstream.digest",
                                                      "websocket.frames",
                                                      "config",
                                                      "statement"};

struct ExportFlags {
  std::string out, since, until, model, status, tenant, contents = "all", format;
  std::uint64_t limit = 0;
  std::vector<std::string> ids, fields;
  bool cosigned = false;
};

Result<audit::ExportOptions> options_of(const ExportFlags& flags) {
  audit::ExportOptions options;
  options.out = flags.out;
  for (const std::string& text : flags.ids) {
    const auto id = parse_uuid(text);
    if (!id) return id.error();
    options.ids.push_back(*id);
  }
  const auto timed = options.filter.set_times(flags.since, flags.until);
  if (!timed) return timed.error();
  options.filter.model = flags.model;
  options.filter.status = flags.status;
  options.filter.tenant = flags.tenant;
  options.filter.limit = flags.limit;
  options.filter.newest_first = flags.limit > 0;
  // Without a selection everything is disclosed, the configuration and the verdicts' statements too.
  const bool selects = !flags.since.empty() || !flags.until.empty() || !flags.model.empty() ||
                       !flags.status.empty() || !flags.tenant.empty() || flags.limit > 0;
  if (!selects) options.filter.type.clear();
  if (!flags.tenant.empty() && !flags.ids.empty()) {
    return Error{Errc::invalid_input, "records are chosen by id or by tenant", "--tenant",
                 "leave out --id or --tenant"};
  }
  options.fields = flags.fields;
  if (flags.contents == "all") {
    options.contents = audit::ContentChoice::all;
  } else if (flags.contents == "none") {
    options.contents = audit::ContentChoice::none;
  } else if (flags.contents == "selected") {
    options.contents = audit::ContentChoice::selected;
  } else {
    return Error{Errc::invalid_input, "unknown choice '" + flags.contents + "'", "--contents",
                 "use all, none or selected"};
  }
  if (!flags.fields.empty() && flags.contents != "selected") {
    return Error{Errc::invalid_input, "--disclose goes with --contents selected",
                 "--contents " + flags.contents,
                 "say --contents selected, or leave --disclose out"};
  }
  if (options.contents == audit::ContentChoice::selected && flags.fields.empty()) {
    return Error{Errc::invalid_input, "no field is selected", "--contents selected",
                 "name them: --disclose request.body"};
  }
  for (const std::string& field : flags.fields) {
    if (std::find(kFields.begin(), kFields.end(), field) != kFields.end()) continue;
    return Error{Errc::invalid_input, "no content is named '" + field.substr(0, 64) + "'",
                 "--disclose", "schema/leaf.md lists them: request.body, response.body, ..."};
  }
  options.extra_files.emplace_back("verify.py", std::string(kVerifyPy));
  return options;
}

/// Contents leave the machine: that is recorded before they do.
Result<void> record_export(const Context& context, const ExportFlags& flags) {
  audit::LeafDraft draft;
  draft.type = "export";
  draft.fields = {
      {"out", gateway::leaf_text(std::filesystem::path(flags.out).filename().string(), 128)},
      {"disclosed", flags.contents},
      {"actor", "uid " + std::to_string(::getuid())}};
  if (!flags.fields.empty()) draft.fields["fields"] = flags.fields;
  const auto appended = append_leaf(context, std::move(draft));
  if (!appended) return appended.error();
  return {};
}

/// What was asked for, and could not be had: a line each.
std::string what_is_missing(const audit::ExportSummary& summary) {
  std::string lines;
  if (summary.erased > 0) {
    lines += std::to_string(summary.erased) + " of the chosen contents were erased\n";
  }
  if (summary.pruned > 0) {
    lines += std::to_string(summary.pruned) + " of the chosen leaves were pruned\n";
  }
  for (const std::string& field : summary.fields_missing) {
    lines += "no chosen record has a content named " + field + "\n";
  }
  return lines;
}

/// The records that fit, by id: the manifest then says whose contents these are.
Result<void> choose_tenant(audit::LogReader& reader, audit::ExportOptions& options) {
  const auto records = reader.list(options.filter);
  if (!records) return records.error();
  for (const auto& record : *records) options.ids.push_back(record.id);
  if (!records->empty()) return {};
  return Error{Errc::not_found, "no such record of this tenant", options.filter.tenant,
               "see verbatim log list --tenant"};
}

int run_export(const Context& context, const ExportFlags& flags) {
  if (!flags.format.empty()) {
    return not_in_this_version("export --format " + flags.format);
  }
  auto options = options_of(flags);
  if (!options) return fail(options.error());
  std::error_code ignored;
  if (std::filesystem::exists(flags.out, ignored)) {
    return fail(Error{Errc::invalid_input, "something is there already", flags.out,
                      "name a new folder or .zip"});
  }
  if (const auto free = check_not_of_a_log(flags.out); !free) return fail(free.error());
  const auto parent = std::filesystem::absolute(flags.out, ignored).parent_path();
  if (std::filesystem::exists(parent, ignored) && !std::filesystem::is_directory(parent, ignored)) {
    return fail(Error{Errc::invalid_input, "not a folder", parent.string(), "name a new folder"});
  }
  if (flags.cosigned) {
    const auto note = newest_cosigned(context, 1);
    if (!note) return fail(note.error());
    options->note = *note;
  }
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  if (!flags.tenant.empty()) {
    if (const auto chosen = choose_tenant(**reader, *options); !chosen) return fail(chosen.error());
  }
  const auto recorded = record_export(context, flags);
  if (!recorded) return fail(recorded.error());
  const auto summary = audit::export_evidence(**reader, *options);
  if (!summary) return fail(summary.error());
  if (context.json) {
    print_json({{"out", flags.out},
                {"size", summary->size},
                {"records", summary->records},
                {"contents", summary->contents},
                {"erased", summary->erased},
                {"pruned", summary->pruned},
                {"fields_missing", summary->fields_missing},
                {"files", summary->files},
                {"bytes", summary->bytes},
                {"origin", (*reader)->origin()},
                {"verify_py_sha256", sha256(kVerifyPy).hex()},
                {"vkey", (*reader)->vkey()}});
  } else {
    std::cout
        << "wrote " << one_line(flags.out) << ": " << summary->size << " leaves, "
        << summary->records << " records, " << summary->contents << " contents, " << summary->files
        << " files\n"
        << what_is_missing(*summary)
        << "give the auditor this key by another way: " << (*reader)->vkey() << '\n'
        << "he takes verify.py from the project, not from the bundle; SHA-256 of this version's: "
        << sha256(kVerifyPy).hex() << '\n';
  }
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Context& context) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command =
      app.add_subcommand("export", "a bundle of evidence that verifies with Python alone");
  command->add_option("--out", flags->out, "a new folder, or a new .zip")->required();
  command->add_option("--id", flags->ids, "contents of these records");
  command->add_option("--since", flags->since, "RFC 3339 time or date");
  command->add_option("--until", flags->until, "RFC 3339 time or date");
  command->add_option("--model", flags->model, "requested model");
  command->add_option("--status", flags->status, "complete, cache_hit, ...")
      ->check(exchange_status());
  command->add_option("--tenant", flags->tenant,
                      "contents of this tenant's records; every tenant's leaves are in the bundle");
  command->add_option("--limit", flags->limit, "at most so many records")->check(whole_number(1));
  command->add_option("--contents", flags->contents, "all, none or selected")
      ->capture_default_str();
  command->add_option("--disclose", flags->fields,
                      "fields to disclose: request.body, response.body, ...");
  command->add_flag("--cosigned", flags->cosigned,
                    "end with the newest checkpoint that witnesses cosigned");
  // For a law or standard: docs/roadmap.md. Asked for, it says that it is not there.
  command->add_option("--format", flags->format)->group("");
  add_common(*command, context,
             "verbatim export --out evidence.zip --since 2026-11-01 --contents all");
  command->callback([&context, flags] { context.exit_code = run_export(context, *flags); });
}

}  // namespace verbatim::cli
