// verbatim keys list|rotate|retire: which keys sign the log.

#include "audit/key_file.hpp"
#include "audit/key_rotator.hpp"
#include "audit/pkcs11_uri.hpp"
#include "audit/reader.hpp"
#include "cli/command.hpp"
#include "cli/show_text.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

Result<audit::KeyChain> keys_of(const Context& context) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return reader.error();
  return (*reader)->keys();
}

/// Where the private halves are, as far as the folder says so to whoever asks.
std::vector<audit::KeyLine> private_keys(const Context& context) {
  auto lines = audit::read_key_file(std::filesystem::path(context.data) / "log.key");
  return lines ? std::move(*lines) : std::vector<audit::KeyLine>();
}

/// "log.key", the URI of a key in a token, or "" for one that is not there (any more).
std::string place_of(const std::vector<audit::KeyLine>& lines, const audit::VerifierKey& key) {
  for (const audit::KeyLine& line : lines) {
    if (line.key == key) return line.uri.empty() ? "log.key" : line.uri;
  }
  return "";
}

int run_list(const Context& context) {
  const auto chain = keys_of(context);
  if (!chain) return fail(chain.error());
  if (!context.json) {
    std::cout << one_line(chain->newest().str()) << '\n';
    return kDone;
  }
  OrderedJson keys = OrderedJson::array();
  const auto lines = private_keys(context);
  const auto& links = chain->links();
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    const bool newest = link == links.rbegin();
    const std::string place = place_of(lines, link->key);
    keys.push_back({{"vkey", link->key.str()},
                    {"origin", link->key.name},
                    {"use", newest        ? "checkpoints and statements"
                            : link->until ? "retired"
                                          : "checkpoints, beside the newest"},
                    {"private_key", place.empty() ? OrderedJson() : OrderedJson(place)},
                    {"from_size", link->from},
                    {"until_size", link->until ? OrderedJson(*link->until) : OrderedJson()}});
  }
  print_json({{"keys", std::move(keys)}});
  return kDone;
}

/// Prints the new key, or the one retired.
int run_change(const Context& context, const audit::LeafDraft& draft) {
  static const SystemClock clock;
  const auto appender = audit::open_appender(context.data, clock, warn);
  if (!appender) return fail(appender.error());
  const auto before = keys_of(context);
  if (!before) return fail(before.error());
  const auto lines_before = private_keys(context);
  const auto appended = (*appender)->append_and_wait(draft);
  if (!appended) return fail(appended.error());
  const auto after = keys_of(context);
  if (!after) return fail(after.error());
  const bool rotated = after->links().size() > before->links().size();
  const audit::VerifierKey key = rotated ? after->newest() : before->signing().back();
  const std::string place = place_of(rotated ? private_keys(context) : lines_before, key);
  const bool left = !rotated && audit::is_pkcs11_uri(place);
  if (context.json) {
    OrderedJson out = {{"index", appended->index}, {"vkey", key.str()}};
    out["private_key"] = rotated         ? place
                         : left          ? "left in its token"
                         : place.empty() ? "not in log.key"
                                         : "destroyed";
    print_json(out);
  } else {
    std::cout << one_line(key.str()) << '\n';
  }
  if (rotated && !context.quiet) {
    std::cerr << "verbatim: before keys retire: give it to auditors, start each witness with --log "
                 "of it too, and put it into the log line of each policy (docs/keys.md)\n";
  }
  if (left && !context.quiet) {
    std::cerr << "verbatim: its private half is still in the token, and destroyed only there: "
              << one_line(place) << '\n';
  }
  return kDone;
}

/// What both commands take.
void add_change(CLI::App& command, Context& context, std::string& reason, const char* example) {
  command.add_option("--reason", reason, "why, for the leaf that says so")
      ->check(utf8_text())
      ->required();
  add_common(command, context, example);
}

void add_rotate(CLI::App& keys, Context& context) {
  struct Flags {
    std::string reason, to;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      keys.add_subcommand("rotate", "a new signing key; the one so far signs beside it");
  command->add_option("--to", flags->to,
                      "where the new key is: 'file' makes one in the data folder, pkcs11:... names "
                      "one in a token; needed where the key so far is in a token");
  add_change(*command, context, flags->reason, "verbatim keys rotate --reason 'yearly' > new.vkey");
  command->callback([&context, flags] {
    if (!flags->to.empty() && flags->to != "file") {
      if (const auto uri = audit::parse_pkcs11_uri(flags->to); !uri) throw Refused(uri.error());
    }
    context.exit_code = run_change(context, audit::rotate_key(flags->reason, actor(), flags->to));
  });
}

void add_retire(CLI::App& keys, Context& context) {
  auto reason = std::make_shared<std::string>();
  CLI::App* command = keys.add_subcommand(
      "retire", "the older key stops; its seed is destroyed, what is in a token stays there");
  add_change(*command, context, *reason,
             "verbatim keys retire --reason 'all auditors have the new key'");
  command->callback([&context, reason] {
    context.exit_code = run_change(context, audit::retire_key(*reason, actor()));
  });
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
  add_rotate(*keys, context);
  add_retire(*keys, context);
}

}  // namespace verbatim::cli
