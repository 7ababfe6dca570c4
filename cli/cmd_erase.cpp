// verbatim erase, hold: contents go, proofs stay; and what must not go.

#include "audit/erasure.hpp"
#include "audit/json_member.hpp"
#include "audit/prune.hpp"
#include "audit/reader.hpp"
#include "cli/append_leaf.hpp"
#include "cli/show_text.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

struct ScopeFlags {
  std::string id, subject;
  bool all = false;
};

Result<audit::Scope> scope_of(const ScopeFlags& flags, const char* choices) {
  const int named =
      (flags.id.empty() ? 0 : 1) + (flags.subject.empty() ? 0 : 1) + (flags.all ? 1 : 0);
  if (named != 1) {
    return Error{Errc::invalid_input, "name one thing", "", std::string("give ") + choices};
  }
  audit::Scope scope;
  scope.subject = flags.subject;
  scope.all = flags.all;
  if (flags.id.empty()) return scope;
  const auto id = parse_uuid(flags.id);
  if (!id) return id.error();
  scope.record = *id;
  return scope;
}

int run_erase(const Context& context, const ScopeFlags& flags, const std::string& reason,
              const std::string& retention_override) {
  const auto scope = scope_of(flags, "--id ID or --subject HANDLE");
  if (!scope) return fail(scope.error());
  static const SystemClock clock;
  const auto appender = audit::open_appender(context.data, clock, warn);
  if (!appender) return fail(appender.error());
  if (!retention_override.empty()) {
    audit::LeafDraft leave;
    leave.type = "retention_override";
    leave.fields = {
        {"scope", audit::scope_json(*scope)}, {"reason", retention_override}, {"actor", actor()}};
    const auto given = (*appender)->append_and_wait(std::move(leave));
    if (!given) return fail(given.error());
  }
  const auto report = (*appender)->erase({*scope, reason, actor()});
  if (!report) return fail(report.error());
  if (context.json) {
    print_json({{"erased", report->contents},
                {"leaves", report->leaves},
                {"key_destroyed", report->key_destroyed},
                {"wal_emptied", report->wal_emptied}});
  } else {
    std::cout << "erased " << report->contents << " contents";
    for (const std::uint64_t leaf : report->leaves) std::cout << ", as leaf " << leaf << " says";
    std::cout << (report->key_destroyed ? "; the subject's key is destroyed\n" : "\n");
  }
  if (report->wal_emptied) return kDone;
  return fail(Error{
      Errc::unavailable,
      "the contents are erased, but a reader kept the write-ahead log from being emptied",
      context.data,
      "it is emptied as soon as nobody reads the log; the command, run again, says when it is"});
}

/// Appends a leaf about a hold and prints its id.
int append_hold(const Context& context, audit::LeafDraft draft) {
  const auto appended = append_leaf(context, std::move(draft));
  if (!appended) return fail(appended.error());
  if (context.json) {
    print_json({{"id", appended->id.str()}, {"index", appended->index}});
  } else {
    std::cout << appended->id.str() << '\n';
  }
  return kDone;
}

/// What a hold does not reach: a pruning goes by age, and takes the origin of a held hit, which is older than the hit.
void warn_of_origins(const Context& context, const audit::Scope& scope) {
  if (scope.all) return;
  if (!scope.record) {
    if (!context.quiet) {
      std::cerr << "verbatim: of cache hits the hold keeps what was answered, not the records that "
                   "first gave those answers, without which they cannot be computed again: hold "
                   "these by --id too (log show ID names a hit's origin)\n";
    }
    return;
  }
  const auto reader = audit::LogReader::open(context.data);
  const auto leaves = reader ? (*reader)->leaves_of(*scope.record)
                             : Result<std::vector<audit::StoredLeaf>>(reader.error());
  if (!leaves || leaves->empty()) return;
  const std::string origin = audit::text_at(leaves->back().json, "origin");
  if (audit::text_at(leaves->back().json, "status") != "cache_hit" || origin.empty()) return;
  warn("this record is a cache hit of " + origin +
       ", without which it cannot be computed again: while it is held that is not erased, but it "
       "can be pruned, unless it is held too");
}

int run_hold_add(const Context& context, const ScopeFlags& flags, const std::string& reason) {
  const auto scope = scope_of(flags, "--id ID, --subject HANDLE or --all");
  if (!scope) return fail(scope.error());
  // A subject may speak later; a record is there, or a slip of the pen that would hold nothing.
  if (scope->record) {
    if (const auto there = audit::leaves_with_id(context.data, *scope->record); !there) {
      return fail(there.error());
    }
  }
  warn_of_origins(context, *scope);
  audit::LeafDraft draft;
  draft.type = "legal_hold";
  draft.fields = {{"scope", audit::scope_json(*scope)}, {"reason", reason}, {"actor", actor()}};
  return append_hold(context, std::move(draft));
}

Result<std::vector<audit::Hold>> holds_of(const Context& context) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return reader.error();
  return (*reader)->holds();
}

int run_hold_release(const Context& context, const std::string& id, const std::string& reason) {
  const auto holds = holds_of(context);
  if (!holds) return fail(holds.error());
  const auto uuid = parse_uuid(id);
  if (!uuid) {
    return fail(Error{Errc::invalid_input, "'" + id.substr(0, 64) + "' is not a hold's id", "",
                      "see verbatim hold list"});
  }
  bool found = false;
  for (const audit::Hold& hold : *holds) found = found || hold.id == *uuid;
  if (!found) {
    return fail(Error{Errc::not_found, "there is no such hold in force", uuid->str(),
                      "see verbatim hold list"});
  }
  audit::LeafDraft draft;
  draft.type = "legal_hold_released";
  draft.fields = {{"hold", uuid->str()}, {"reason", reason}, {"actor", actor()}};
  return append_hold(context, std::move(draft));
}

int run_hold_list(const Context& context) {
  const auto holds = holds_of(context);
  if (!holds) return fail(holds.error());
  OrderedJson list = OrderedJson::array();
  for (const audit::Hold& hold : *holds) {
    const std::string scope = audit::scope_json(hold.scope).dump();
    list.push_back({{"id", hold.id.str()},
                    {"index", hold.index},
                    {"time", format_rfc3339(hold.time_us)},
                    {"scope", OrderedJson::parse(scope)},
                    {"reason", hold.reason},
                    {"actor", hold.actor}});
    if (!context.json) {
      std::cout << hold.id.str() << "  " << format_rfc3339(hold.time_us).substr(0, 19) << "Z  "
                << one_line(scope) << "  " << one_line(hold.reason) << '\n';
    }
  }
  if (context.json) print_json({{"holds", std::move(list)}});
  return kDone;
}

void add_scope(CLI::App& command, ScopeFlags& flags) {
  command.add_option("--id", flags.id, "a record");
  command.add_option("--subject", flags.subject,
                     "a subject's handle, as its request leaves name it");
}

}  // namespace

void add_erase(CLI::App& app, Context& context) {
  auto flags = std::make_shared<ScopeFlags>();
  auto reason = std::make_shared<std::string>();
  CLI::App* erase = app.add_subcommand(
      "erase", "erase the contents of a record or a subject; every proof stays valid");
  add_scope(*erase, *flags);
  erase->add_option("--reason", *reason, "why, for the leaf that says so; no personal data")
      ->check(utf8_text())
      ->required();
  auto retention_override = std::make_shared<std::string>();
  erase
      ->add_option("--override-retention", *retention_override,
                   "why it goes within its minimum period, for the leaf; without it erase refuses")
      ->check(utf8_text());
  add_common(*erase, context,
             "verbatim erase --id 0193a5e0-7c1a-7b3e-9d2f-0123456789ab --reason 'GDPR Art. 17'");
  erase->callback([&context, flags, reason, retention_override] {
    context.exit_code = run_erase(context, *flags, *reason, *retention_override);
  });
}

void add_hold(CLI::App& app, Context& context) {
  CLI::App* hold = app.add_subcommand(
      "hold",
      "legal holds: while one is in force, erase refuses and prune stops before what it holds");
  hold->require_subcommand(1);
  hold->footer("Example:\n  verbatim hold add --all --reason 'case 17'");

  auto flags = std::make_shared<ScopeFlags>();
  auto reason = std::make_shared<std::string>();
  CLI::App* add = hold->add_subcommand("add", "hold a record, a subject or everything");
  add_scope(*add, *flags);
  add->add_flag("--all", flags->all, "everything in the log");
  add->add_option("--reason", *reason, "why, for the leaf that says so")
      ->check(utf8_text())
      ->required();
  add_common(*add, context, "verbatim hold add --subject HANDLE --reason 'case 17'");
  add->callback(
      [&context, flags, reason] { context.exit_code = run_hold_add(context, *flags, *reason); });

  CLI::App* list = hold->add_subcommand("list", "the holds in force, oldest first");
  add_common(*list, context, "verbatim hold list --json");
  list->callback([&context] { context.exit_code = run_hold_list(context); });

  auto id = std::make_shared<std::string>();
  auto why = std::make_shared<std::string>();
  CLI::App* release = hold->add_subcommand("release", "end a hold");
  release->add_option("HOLD", *id, "its id, as hold add printed it")->required();
  release->add_option("--reason", *why, "why, for the leaf that says so")
      ->check(utf8_text())
      ->required();
  add_common(*release, context,
             "verbatim hold release 0193a5e0-7c1a-7b3e-9d2f-0123456789ab --reason 'case closed'");
  release->callback(
      [&context, id, why] { context.exit_code = run_hold_release(context, *id, *why); });
}

}  // namespace verbatim::cli
