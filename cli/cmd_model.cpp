// verbatim model fingerprint|inspect: what is this model? And sign|verify: is it what somebody has signed?

#include "cli/command.hpp"
#include "cli/model_signature.hpp"
#include "cli/show_text.hpp"
#include "local_engine/fingerprint.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

OrderedJson digest_or_null(const Digest& digest) {
  return digest == Digest{} ? OrderedJson() : OrderedJson(digest.hex());
}

OrderedJson json_of(const local_engine::Fingerprint& print) {
  OrderedJson files = OrderedJson::array();
  for (const auto& file : print.files) {
    files.push_back({{"name", file.name}, {"size", file.size}, {"sha256", file.sha256.hex()}});
  }
  return {{"manifest_sha256", print.manifest_sha256.hex()},
          {"weights_sha256", print.weights_sha256.hex()},
          {"dirhash1", print.dirhash1.hex()},
          {"oms_root", print.oms_root.hex()},
          {"files", std::move(files)},
          {"architecture", print.architecture},
          {"parameters", print.parameters},
          {"dtype", print.dtype},
          {"tokenizer_sha256", digest_or_null(print.tokenizer_sha256)},
          {"chat_template_sha256", digest_or_null(print.chat_template_sha256)}};
}

int run_fingerprint(const Context& context, const std::string& path, bool with_files) {
  const auto print = local_engine::fingerprint(path);
  if (!print) return fail(print.error());
  const OrderedJson json = json_of(*print);
  if (context.json) {
    print_json(json);
    return kDone;
  }
  for (const auto& [name, value] : json.items()) {
    if (name == "files") continue;
    std::cout << name << std::string(name.size() < 22 ? 22 - name.size() : 1, ' ')
              << one_line(value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
  }
  if (with_files) {
    for (const auto& file : print->files) {
      std::cout << file.sha256.hex() << "  " << file.size << "  " << one_line(file.name) << '\n';
    }
  }
  return kDone;
}

}  // namespace

void add_model(CLI::App& app, Context& context) {
  CLI::App* model =
      app.add_subcommand("model", "identity of a model: digests of its files, and signatures");
  model->require_subcommand(1);
  model->footer("Example:\n  verbatim model fingerprint ./model --json");

  auto path = std::make_shared<std::string>();
  CLI::App* fingerprint =
      model->add_subcommand("fingerprint", "hash every file, and what a replay uses");
  fingerprint->add_option("PATH", *path, "Hugging Face folder or .gguf")->required();
  add_common(*fingerprint, context, "verbatim model fingerprint ./model --json");
  fingerprint->callback(
      [&context, path] { context.exit_code = run_fingerprint(context, *path, false); });

  CLI::App* inspect = model->add_subcommand("inspect", "the same, with a line for each file");
  inspect->add_option("PATH", *path, "Hugging Face folder or .gguf")->required();
  add_common(*inspect, context, "verbatim model inspect ./model");
  inspect->callback(
      [&context, path] { context.exit_code = run_fingerprint(context, *path, true); });

  add_model_sign(*model, context);
  add_model_verify(*model, context);
}

}  // namespace verbatim::cli
