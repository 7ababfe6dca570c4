#include "cli/model_signature.hpp"

#include "cli/progress.hpp"
#include "cli/show_text.hpp"
#include "model_signing/bundle.hpp"
#include "model_signing/sign.hpp"
#include "model_signing/verify.hpp"
#include "schema/file.hpp"

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::cli {

namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

struct SignFlags {
  std::string path, key, signature;
  std::vector<std::string> ignore;
  bool allow_symlinks = false;
};

struct VerifyFlags {
  std::string path, key, signature;
  bool ignore_unsigned = false;
};

model_signing::HashProgress shown_by(Progress& progress) {
  return [&progress](std::uint64_t done, std::uint64_t of) {
    progress.show(done / kMebibyte, of / kMebibyte);
  };
}

Result<void> check_nothing_there(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) {
    return Error{Errc::invalid_input, "something is there already", file,
                 "name another file, or delete the old signature first"};
  }
  return check_outputs({file});
}

void print_left_out(const std::vector<std::string>& paths) {
  if (paths.empty()) return;
  std::cout << "  left out  ";
  for (std::size_t i = 0; i < paths.size(); ++i)
    std::cout << (i == 0 ? "" : ", ") << one_line(paths[i]);
  std::cout << '\n';
}

int run_sign(const Context& context, const SignFlags& flags) {
  if (const auto free = check_nothing_there(flags.signature); !free) return fail(free.error());
  const auto key = model_signing::EcPrivateKey::read(flags.key);
  if (!key) return fail(key.error());
  const SystemClock clock;
  Progress progress(context.quiet, "hashed MiB", clock);
  const auto made = model_signing::sign_model(
      {flags.path, flags.signature, flags.ignore, flags.allow_symlinks, shown_by(progress)}, *key);
  progress.clear();
  if (!made) return fail(made.error());
  if (const auto free = check_nothing_there(flags.signature); !free) return fail(free.error());
  if (const auto written = write_file(flags.signature, made->bundle); !written)
    return fail(written.error());
  const auto& statement = made->statement;
  const std::string root = model_signing::root_of(statement.resources).hex();
  if (context.json) {
    print_json({{"signature", flags.signature},
                {"model", statement.model},
                {"root", root},
                {"key", key->public_key().hint()},
                {"curve", key->public_key().curve()},
                {"files", statement.resources.size()},
                {"bytes", made->bytes},
                {"ignore_paths", statement.ignore_paths}});
    return kDone;
  }
  std::cout << "wrote " << flags.signature << ": " << one_line(statement.model) << ", "
            << statement.resources.size() << " files, " << made->bytes << " bytes\n"
            << "  root      " << root << '\n'
            << "  key       " << key->public_key().hint() << " (" << key->public_key().curve()
            << ")\n";
  print_left_out(statement.ignore_paths);
  return kDone;
}

void print_report(const model_signing::VerifyReport& report, const std::string& hint) {
  std::cout << (report.valid() ? "VALID" : "INVALID") << '\n';
  for (const auto& problem : report.problems)
    std::cout << "  problem   " << problem.kind << ": " << one_line(problem.detail) << '\n';
  if (report.files_signed > 0) {  // the signature is the key's
    std::cout << "  model     " << one_line(report.model) << ", says the signer\n"
              << "  files     " << report.files_signed << " signed, " << report.files_checked
              << " read, " << report.bytes_checked << " bytes\n"
              << "  root      " << report.root << '\n';
  }
  for (const std::string& name : report.unsigned_files)
    std::cout << "  unsigned  " << one_line(name) << '\n';
  print_left_out(report.ignore_paths);
  std::cout << "  key       " << hint << '\n';
}

OrderedJson json_of(const model_signing::VerifyReport& report, const std::string& hint) {
  OrderedJson problems = OrderedJson::array();
  for (const auto& problem : report.problems)
    problems.push_back({{"kind", problem.kind}, {"detail", problem.detail}});
  const auto if_known = [](const std::string& text) {
    return text.empty() ? OrderedJson() : OrderedJson(text);
  };
  return {{"verdict", report.valid() ? "VALID" : "INVALID"},
          {"model", if_known(report.model)},
          {"root", if_known(report.root)},
          {"key", hint},
          {"files_signed", report.files_signed},
          {"files_checked", report.files_checked},
          {"bytes_checked", report.bytes_checked},
          {"unsigned", report.unsigned_files},
          {"ignore_paths", report.ignore_paths},
          {"problems", std::move(problems)}};
}

int run_verify(const Context& context, const VerifyFlags& flags) {
  constexpr std::uint64_t kKeyBytesMax = 64 << 10;
  const auto pem = read_file(flags.key, kKeyBytesMax);
  if (!pem) return fail(pem.error());
  const auto key = model_signing::EcPublicKey::parse(*pem);
  if (!key) {
    Error error = key.error();
    error.where = flags.key;
    return fail(error);
  }
  const auto bundle = read_file(flags.signature, model_signing::kBundleBytesMax);
  if (!bundle) return fail(bundle.error());
  const SystemClock clock;
  Progress progress(context.quiet, "hashed MiB", clock);
  const auto report = model_signing::verify_model(
      {flags.path, flags.signature, flags.ignore_unsigned, shown_by(progress)}, *bundle, *key);
  progress.clear();
  if (!report) return fail(report.error());
  if (context.json) {
    print_json(json_of(*report, key->hint()));
  } else {
    print_report(*report, key->hint());
  }
  return report->valid() ? kDone : kBadFinding;
}

}  // namespace

void add_model_sign(CLI::App& model, Context& context) {
  auto flags = std::make_shared<SignFlags>();
  CLI::App* sign =
      model.add_subcommand("sign", "sign a model's files (OpenSSF Model Signing v1.0)");
  sign->add_option("PATH", flags->path, "the model's folder, or its one file")->required();
  sign->add_option("--key", flags->key,
                   "private key in PEM on P-256, P-384 or P-521, in a file of mode 600")
      ->required();
  sign->add_option("--signature", flags->signature, "a new file for the signature")->required();
  sign->add_option("--ignore", flags->ignore,
                   "leave this file or folder out: a path from the model's folder; repeatable")
      ->allow_extra_args(false);
  sign->add_flag("--allow-symlinks", flags->allow_symlinks,
                 "sign what symbolic links inside of the model lead to");
  add_common(*sign, context, "verbatim model sign ./model --key key.pem --signature model.sig");
  sign->callback([&context, flags] { context.exit_code = run_sign(context, *flags); });
}

void add_model_verify(CLI::App& model, Context& context) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verify = model.add_subcommand("verify", "check a model's files against a signature");
  verify->add_option("PATH", flags->path, "the model's folder, or its one file")->required();
  verify->add_option("--key", flags->key, "the signer's public key in PEM")->required();
  verify->add_option("--signature", flags->signature, "the file with the signature")->required();
  verify->add_flag("--ignore-unsigned", flags->ignore_unsigned,
                   "list files that are not in the signature, but accept them");
  add_common(*verify, context,
             "verbatim model verify ./model --key key.pub.pem --signature model.sig");
  verify->callback([&context, flags] { context.exit_code = run_verify(context, *flags); });
}

}  // namespace verbatim::cli
