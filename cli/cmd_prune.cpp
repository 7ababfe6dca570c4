// verbatim prune: old leaves and their contents go, their hashes and every proof stay.

#include "audit/erasure.hpp"
#include "audit/json_member.hpp"
#include "audit/prune.hpp"
#include "audit/reader.hpp"
#include "cli/command.hpp"
#include "cli/show_text.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

constexpr std::int64_t kDayUs = 86'400'000'000;

struct PruneFlags {
  std::string before, reason;
  std::uint64_t older_than_days = 0;
  bool dry_run = false;
};

const SystemClock& system_clock() {
  static const SystemClock clock;
  return clock;
}

/// The time before which leaves may go.
Result<std::int64_t> limit_of(const PruneFlags& flags) {
  if (flags.before.empty() == (flags.older_than_days == 0)) {
    return Error{Errc::invalid_input, "say how old a leaf must be to go", "",
                 "give --older-than DAYS or --before TIME"};
  }
  if (!flags.before.empty()) {
    const auto before = parse_rfc3339(flags.before);
    if (before && *before > system_clock().now_us()) {
      return Error{Errc::invalid_input, "that time is yet to come", "--before " + flags.before,
                   "name a time that has passed"};
    }
    return before;
  }
  return system_clock().now_us() - static_cast<std::int64_t>(flags.older_than_days) * kDayUs;
}

int run_dry(const Context& context, std::int64_t before_us) {
  const auto plan = audit::plan_prune(context.data, before_us, system_clock().now_us());
  if (!plan) return fail(plan.error());
  if (context.json) {
    print_json({{"minimum_index", plan->minimum_index},
                {"minimum_index_before", plan->before.minimum_index},
                {"leaves", plan->leaves},
                {"contents", plan->contents},
                {"bytes", plan->bytes},
                {"kept", plan->kept},
                {"stopped_by", plan->stopped_by}});
  } else {
    std::cout << "a dry run, nothing was changed: " << plan->leaves << " leaves and "
              << plan->contents << " contents (" << plan->bytes << " bytes) below index "
              << plan->minimum_index << " would go; " << plan->kept.size()
              << " leaves below it must be kept and would stay.\n"
              << "why not more: " << one_line(plan->stopped_by) << '\n';
  }
  return kDone;
}

/// Well done all the same: a scheduled run finds this on most nights.
int nothing_to_prune(const Context& context, const audit::PrunePlan& plan) {
  if (context.json) {
    print_json({{"index", nullptr},
                {"minimum_index", plan.before.minimum_index},
                {"leaves", 0},
                {"contents", 0},
                {"stopped_by", plan.stopped_by}});
  } else {
    std::cout << "nothing to prune: only whole tiles of 256 leaves go; why not more: "
              << one_line(plan.stopped_by) << '\n';
  }
  return kDone;
}

int run_prune(const Context& context, const PruneFlags& flags) {
  const auto before = limit_of(flags);
  if (!before) return fail(before.error());
  if (!flags.reason.empty()) {
    const auto given = audit::check_reason(flags.reason, actor());
    if (!given) return fail(given.error());
  }
  if (flags.dry_run) return run_dry(context, *before);
  if (flags.reason.empty()) return usage("--reason is required", "it goes into the leaf");
  const auto appender = audit::open_appender(context.data, system_clock(), warn);
  if (!appender) return fail(appender.error());
  const auto appended =
      (*appender)->append_and_wait(audit::prune_draft(*before, flags.reason, actor()));
  if (!appended && appended.error().code == Errc::invalid_input) {
    const auto plan = audit::plan_prune(context.data, *before, system_clock().now_us());
    if (!plan) return fail(plan.error());
    if (plan->minimum_index <= plan->before.minimum_index) {
      return nothing_to_prune(context, *plan);
    }
  }
  if (!appended) return fail(appended.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto leaf = (*reader)->leaf(appended->index);
  if (!leaf) return fail(leaf.error());
  const std::int64_t leaves = audit::number_at(leaf->json, "pruned_leaves");
  const std::int64_t contents = audit::number_at(leaf->json, "pruned_contents");
  const std::int64_t minimum = audit::number_at(leaf->json, "minimum_index");
  if (context.json) {
    print_json({{"index", appended->index},
                {"minimum_index", minimum},
                {"leaves", leaves},
                {"contents", contents}});
  } else {
    std::cout << "pruned " << leaves << " leaves and " << contents << " contents below index "
              << minimum << ", as leaf " << appended->index << " says\n";
  }
  return kDone;
}

}  // namespace

void add_prune(CLI::App& app, Context& context) {
  auto flags = std::make_shared<PruneFlags>();
  CLI::App* prune = app.add_subcommand(
      "prune", "take away old leaves and their contents; their hashes and every proof stay");
  prune
      ->add_option("--older-than", flags->older_than_days,
                   "days; what must be kept longer, by its class or a hold, stays")
      ->check(whole_number(1, 36'525));
  prune->add_option("--before", flags->before, "RFC 3339 time or date, instead of --older-than");
  prune->add_option("--reason", flags->reason, "why, for the leaf that says so")
      ->check(utf8_text());
  prune->add_flag("--dry-run", flags->dry_run, "say what would go, and change nothing");
  add_common(*prune, context,
             "verbatim prune --older-than 400 --reason 'retention policy of 2026' --dry-run");
  prune->callback([&context, flags] { context.exit_code = run_prune(context, *flags); });
}

}  // namespace verbatim::cli
