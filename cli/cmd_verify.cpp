// verbatim verify: is this log, this bundle or this receipt what was signed?

#include "audit/policy.hpp"
#include "audit/verify.hpp"
#include "cli/command.hpp"
#include "cli/policy_file.hpp"
#include "cli/show_text.hpp"
#include "schema/digest.hpp"
#include "schema/file.hpp"

#include <kVerifyPy.hpp>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

struct VerifyFlags {
  std::string path, key, policy, checkpoint, receipt, tsa_ca;
  bool no_contents = false;
};

/// The text of a file that an option names; "" for no option.
Result<std::string> text_of(const std::string& path) {
  return path.empty() ? Result<std::string>(std::string()) : read_input(path);
}

void print_problems(const std::vector<audit::Problem>& problems) {
  for (const auto& problem : problems) {
    std::cout << "  problem   " << problem.kind << ": " << one_line(problem.detail) << '\n';
  }
}

/// What is wrong comes right after the verdict.
void print_verdict(audit::Verdict verdict, const std::vector<audit::Problem>& problems,
                   const std::string& but = "") {
  std::cout << audit::verdict_name(verdict) << but << '\n';
  print_problems(problems);
}

/// When, by others' clocks, what of it was there.
void print_stamp(const audit::TimestampFinding& stamp, bool checked) {
  std::cout << "  stamped   " << stamp.size << " leaves by " << format_rfc3339(stamp.time_us)
            << ", says " << one_line(stamp.tsa)
            << (!checked        ? "  (not checked: pass --tsa-ca)"
                : stamp.trusted ? ", who is trusted"
                                : ", who is NOT trusted")
            << '\n';
}

OrderedJson json_of(const audit::TimestampFinding& stamp, bool checked) {
  return {{"index", stamp.index},
          {"size", stamp.size},
          {"time", format_rfc3339(stamp.time_us)},
          {"tsa", stamp.tsa},
          {"trusted", checked ? OrderedJson(stamp.trusted) : OrderedJson()}};
}

/// The newest key signed what was checked: where the policy's log line has it, it is pinned by that.
bool is_named_by_policy(const audit::VerifyReport& report, const std::string& policy) {
  const auto parsed = audit::Policy::parse(policy);
  return parsed && std::any_of(parsed->logs().begin(), parsed->logs().end(),
                               [&](const auto& log) { return log.str() == report.vkey; });
}

void print_report(const audit::VerifyReport& report, const audit::VerifyOptions& options) {
  const bool tsa_given = !options.tsa_ca.empty();

  print_verdict(report.verdict, report.problems,
                report.contents_unchecked.empty() ? "" : ", contents NOT CHECKED");
  std::cout << "  origin    " << one_line(report.origin) << '\n'
            << "  size      " << report.size << " leaves, " << report.checked_leaves << " checked\n"
            << "  root      " << report.root.hex() << '\n'
            << "  contents  " << report.checked_contents
            << " opened and equal to their commitments, " << report.erased << " erased"
            << (report.not_disclosed == 0
                    ? ""
                    : ", " + std::to_string(report.not_disclosed) + " not in this bundle")
            << '\n'
            << (report.contents_unchecked.empty()
                    ? ""
                    : "            not opened: " + one_line(report.contents_unchecked) + "\n")
            << "  key       " << one_line(report.vkey)
            << (report.key_was_given ? ""
                : is_named_by_policy(report, options.policy)
                    ? "  (named by the policy)"
                    : "  (named by the log itself: pass --key to pin it)")
            << '\n';
  if (report.minimum_index > 0) {
    std::cout << "  pruned    " << report.pruned << " leaves below " << report.minimum_index
              << ": PRUNED, their hashes are in the tree"
              << (report.prune_unfinished ? "; some are still there, until the log is next opened"
                                          : "")
              << '\n';
  }
  if (report.timestamps.newest) print_stamp(*report.timestamps.newest, tsa_given);
}

OrderedJson json_of(const std::vector<audit::Problem>& problems) {
  OrderedJson list = OrderedJson::array();
  for (const auto& problem : problems) {
    OrderedJson json = {{"kind", problem.kind}, {"detail", problem.detail}};
    if (problem.index) json["index"] = *problem.index;
    list.push_back(std::move(json));
  }
  return list;
}

OrderedJson json_of(const audit::VerifyReport& report, bool tsa_given) {
  const audit::TimestampSummary& stamps = report.timestamps;
  return {
      {"verdict", audit::verdict_name(report.verdict)},
      {"size", report.size},
      {"root", report.root.hex()},
      {"origin", report.origin},
      {"vkey", report.vkey},
      {"keys", report.keys},
      {"key_was_given", report.key_was_given},
      {"checked_leaves", report.checked_leaves},
      {"checked_contents", report.checked_contents},
      {"erased", report.erased},
      {"not_disclosed", report.not_disclosed},
      {"pruned", report.pruned},
      {"minimum_index", report.minimum_index},
      {"prune_unfinished", report.prune_unfinished},
      {"contents_unchecked",
       report.contents_unchecked.empty() ? OrderedJson() : OrderedJson(report.contents_unchecked)},
      {"timestamps",
       {{"found", stamps.found},
        {"trusted", tsa_given ? OrderedJson(stamps.trusted) : OrderedJson()},
        {"newest", stamps.newest ? json_of(*stamps.newest, tsa_given) : OrderedJson()}}},
      {"problems", json_of(report.problems)}};
}

Result<audit::VerifyOptions> options_of(const VerifyFlags& flags) {
  audit::VerifyOptions options;
  const auto key = read_key(flags.key);
  if (!key) return key.error();
  options.vkey = *key;
  const auto checkpoint =
      flags.checkpoint.empty() ? Result<std::string>(std::string()) : read_note(flags.checkpoint);
  if (!checkpoint) return checkpoint.error();
  options.checkpoint = *checkpoint;
  const auto policy = read_policy(flags.policy);
  if (!policy) return policy.error();
  options.policy = *policy;
  const auto tsa_ca = text_of(flags.tsa_ca);
  if (!tsa_ca) return tsa_ca.error();
  options.tsa_ca = *tsa_ca;
  options.contents = !flags.no_contents;
  return options;
}

int exit_code_of(audit::Verdict verdict) {
  return verdict == audit::Verdict::valid ? kDone : kBadFinding;
}

/// A receipt alone, without a log.
int run_receipt(const Context& context, const VerifyFlags& flags) {
  if (!flags.path.empty()) {
    return usage("--receipt verifies a receipt alone", "leave out the PATH of a log or bundle");
  }
  const auto options = options_of(flags);
  if (!options) return fail(options.error());
  const auto text = read_input(flags.receipt);
  if (!text) return fail(text.error());
  const auto report = audit::verify_receipt(*text, *options);
  if (!report) return fail(report.error());
  if (context.json) {
    const auto leaf = OrderedJson::parse(report->leaf, nullptr, false);
    print_json(
        {{"verdict", audit::verdict_name(report->verdict)},
         {"size", report->size},
         {"root", report->root.hex()},
         {"origin", report->origin},
         {"index", report->index},
         {"leaf", leaf.is_discarded() ? OrderedJson() : leaf},
         {"timestamp", report->timestamp ? json_of(*report->timestamp, !options->tsa_ca.empty())
                                         : OrderedJson()},
         {"problems", json_of(report->problems)}});
  } else {
    print_verdict(report->verdict, report->problems);
    if (report->size > 0) {  // its checkpoint could be opened
      std::cout << "  origin    " << one_line(report->origin) << '\n'
                << "  index     " << report->index << " of " << report->size << " leaves\n"
                << "  root      " << report->root.hex() << '\n';
    }
    std::cout << "  leaf      " << one_line(report->leaf) << '\n';
    if (report->timestamp) print_stamp(*report->timestamp, !options->tsa_ca.empty());
  }
  return exit_code_of(report->verdict);
}

/// A bundle brings a verify.py, and who made it chose which. Nothing of a verdict: another version writes another one.
bool is_other_script(const std::string& bundle) {
  constexpr std::uint64_t kScriptBytesMax = 1 << 20;
  std::error_code ignored;
  const auto path = std::filesystem::path(bundle) / "verify.py";
  if (bundle.empty() ||
      !std::filesystem::exists(std::filesystem::path(bundle) / "manifest.json", ignored) ||
      !std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    return false;
  }
  const auto script = read_file(path, kScriptBytesMax);
  return !script || *script != kVerifyPy;
}

void print_script(const std::string& bundle) {
  if (!is_other_script(bundle)) return;
  std::cout << "  verify.py is not the one that this version writes (SHA-256 "
            << sha256(kVerifyPy).hex() << "): do not run the bundle's, but one from the project\n";
}

int run_verify(const Context& context, const VerifyFlags& flags) {
  if (!flags.receipt.empty()) return run_receipt(context, flags);
  auto given = options_of(flags);
  if (!given) return fail(given.error());
  audit::VerifyOptions& options = *given;
  const bool progress = !context.quiet && ::isatty(STDERR_FILENO) == 1;
  if (progress) {
    options.progress = [](std::uint64_t done, std::uint64_t of) {
      std::cerr << "\rverified " << done << " of " << of << " leaves" << std::flush;
    };
  }
  const auto report = audit::verify(flags.path.empty() ? context.data : flags.path, options);
  if (progress) std::cerr << "\r\x1b[K";
  if (!report) return fail(report.error());
  if (context.json) {
    print_json(json_of(*report, !options.tsa_ca.empty()));
  } else {
    print_report(*report, options);
    print_script(flags.path);
  }
  return exit_code_of(report->verdict);
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verify =
      app.add_subcommand("verify", "check a log or an exported bundle; changes nothing");
  verify->add_option("PATH", flags->path,
                     "a bundle (folder or zip) or a data folder; default: --data");
  verify->add_option("--key", flags->key, "the log's public key (vkey), or a file that holds it");
  verify->add_option("--policy", flags->policy,
                     "tlog-policy file: which witnesses must have cosigned");
  verify->add_option("--checkpoint", flags->checkpoint,
                     "an older checkpoint that the log must contain");
  verify->add_option("--tsa-ca", flags->tsa_ca,
                     "certificates (PEM) of the time-stamping authorities to trust");
  verify->add_option("--receipt", flags->receipt,
                     "a receipt (verbatim receipt) instead of a log: needs --key and nothing else");
  verify->add_flag("--no-contents", flags->no_contents, "check the tree alone");
  add_common(*verify, context, "verbatim verify ./bundle --key \"$(cat log.vkey)\"");
  verify->callback([&context, flags] { context.exit_code = run_verify(context, *flags); });
}

}  // namespace verbatim::cli
