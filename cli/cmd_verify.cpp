// verbatim verify: is this log, or this bundle, what was signed?

#include "audit/verify.hpp"
#include "cli/command.hpp"

#include <unistd.h>

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

struct VerifyFlags {
  std::string path, key, policy, checkpoint;
  bool no_contents = false;
};

/// The text of a file that an option names; "" for no option.
Result<std::string> text_of(const std::string& path) {
  return path.empty() ? Result<std::string>(std::string()) : read_input(path);
}

/// A key is given as itself, or as a file that holds it.
Result<std::string> key_of(const std::string& key) {
  std::error_code ignored;
  if (key.empty() || key.find('+') != std::string::npos || !std::filesystem::exists(key, ignored)) {
    return key;
  }
  auto text = read_input(key);
  if (!text) return text.error();
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return *text;
}

void print_report(const audit::VerifyReport& report) {
  std::cout << audit::verdict_name(report.verdict) << '\n'
            << "  origin    " << report.origin << '\n'
            << "  size      " << report.size << " leaves, " << report.checked_leaves << " checked\n"
            << "  root      " << report.root.hex() << '\n'
            << "  contents  " << report.checked_contents
            << " opened and equal to their commitments, " << report.erased << " erased\n"
            << "  key       " << report.vkey
            << (report.key_was_given ? "" : "  (named by the log itself: pass --key to pin it)")
            << '\n';
  for (const auto& problem : report.problems) {
    std::cout << "  problem   " << problem.kind << ": " << problem.detail << '\n';
  }
}

OrderedJson json_of(const audit::VerifyReport& report) {
  OrderedJson problems = OrderedJson::array();
  for (const auto& problem : report.problems) {
    OrderedJson json = {{"kind", problem.kind}, {"detail", problem.detail}};
    if (problem.index) json["index"] = *problem.index;
    problems.push_back(std::move(json));
  }
  return {{"verdict", audit::verdict_name(report.verdict)},
          {"size", report.size},
          {"root", report.root.hex()},
          {"origin", report.origin},
          {"vkey", report.vkey},
          {"key_was_given", report.key_was_given},
          {"checked_leaves", report.checked_leaves},
          {"checked_contents", report.checked_contents},
          {"erased", report.erased},
          {"problems", std::move(problems)}};
}

int run_verify(const Context& context, const VerifyFlags& flags) {
  audit::VerifyOptions options;
  const auto key = key_of(flags.key);
  if (!key) return fail(key.error());
  options.vkey = *key;
  const auto checkpoint = text_of(flags.checkpoint);
  if (!checkpoint) return fail(checkpoint.error());
  options.checkpoint = *checkpoint;
  const auto policy = text_of(flags.policy);
  if (!policy) return fail(policy.error());
  options.policy = *policy;
  options.contents = !flags.no_contents;
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
    print_json(json_of(*report));
  } else {
    print_report(*report);
  }
  return report->verdict == audit::Verdict::valid ? kDone : kBadFinding;
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
  verify->add_flag("--no-contents", flags->no_contents, "check the tree alone");
  add_common(*verify, context, "verbatim verify ./bundle --key \"$(cat log.vkey)\"");
  verify->callback([&context, flags] { context.exit_code = run_verify(context, *flags); });
}

}  // namespace verbatim::cli
