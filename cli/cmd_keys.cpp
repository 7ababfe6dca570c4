// verbatim keys list|rotate|retire: which keys sign the log.

#include "audit/key_rotator.hpp"
#include "audit/reader.hpp"
#include "cli/command.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

Result<audit::KeyChain> keys_of(const Context& context) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return reader.error();
  return (*reader)->keys();
}

int run_list(const Context& context) {
  const auto chain = keys_of(context);
  if (!chain) return fail(chain.error());
  if (!context.json) {
    std::cout << chain->newest().str() << '\n';
    return kDone;
  }
  OrderedJson keys = OrderedJson::array();
  const auto& links = chain->links();
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    const bool newest = link == links.rbegin();
    keys.push_back({{"vkey", link->key.str()},
                    {"origin", link->key.name},
                    {"use", newest        ? "checkpoints and statements"
                            : link->until ? "retired"
                                          : "checkpoints, beside the newest"},
                    {"from_size", link->from},
                    {"until_size", link->until ? OrderedJson(*link->until) : OrderedJson()}});
  }
  print_json({{"keys", std::move(keys)}});
  return kDone;
}

using MakeDraft = audit::LeafDraft (*)(const std::string& reason, const std::string& actor);

/// Prints the new key, or the one retired.
int run_change(const Context& context, MakeDraft make, const std::string& reason) {
  static const SystemClock clock;
  const auto appender = audit::open_appender(context.data, clock);
  if (!appender) return fail(appender.error());
  const auto before = keys_of(context);
  if (!before) return fail(before.error());
  const auto appended = (*appender)->append_and_wait(make(reason, actor()));
  if (!appended) return fail(appended.error());
  const auto after = keys_of(context);
  if (!after) return fail(after.error());
  const bool rotated = after->links().size() > before->links().size();
  const std::string vkey = rotated ? after->newest().str() : before->signing().back().str();
  if (context.json) {
    print_json({{"index", appended->index}, {"vkey", vkey}});
  } else {
    std::cout << vkey << '\n';
  }
  return kDone;
}

/// A subcommand that changes the key and says why.
void add_change(CLI::App& keys, Context& context, const char* name, const char* what,
                MakeDraft make, const char* example) {
  auto reason = std::make_shared<std::string>();
  CLI::App* command = keys.add_subcommand(name, what);
  command->add_option("--reason", *reason, "why, for the leaf that says so")
      ->check(utf8_text())
      ->required();
  add_common(*command, context, example);
  command->callback(
      [&context, make, reason] { context.exit_code = run_change(context, make, *reason); });
}

}  // namespace

void add_keys(CLI::App& app, Context& context) {
  CLI::App* keys = app.add_subcommand("keys", "the log's keys");
  keys->require_subcommand(1);
  keys->footer("Example:\n  verbatim keys list");
  CLI::App* list = keys->add_subcommand("list",
                                        "the public key (vkey) that auditors pin with --key; with "
                                        "--json all that have signed, newest first");
  add_common(*list, context, "verbatim keys list > log.vkey");
  list->callback([&context] { context.exit_code = run_list(context); });
  add_change(*keys, context, "rotate", "a new signing key; the one so far signs beside it",
             audit::rotate_key, "verbatim keys rotate --reason 'yearly' > new.vkey");
  add_change(*keys, context, "retire", "the older key stops, and its private half is destroyed",
             audit::retire_key, "verbatim keys retire --reason 'all auditors have the new key'");
}

}  // namespace verbatim::cli
