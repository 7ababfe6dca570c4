#include "local_engine/chat_template.hpp"

#include "local_engine/text/gguf_metadata.hpp"
#include "local_engine/text/jinja/interpreter.hpp"
#include "local_engine/text/jinja/lexer.hpp"
#include "local_engine/text/jinja/parser.hpp"
#include "schema/bytes.hpp"
#include "schema/file.hpp"

#include <optional>

namespace verbatim::local_engine {

namespace {

constexpr std::uint64_t kTemplateBytesMax = std::uint64_t{4} * 1024 * 1024;
constexpr std::uint64_t kConfigBytesMax = std::uint64_t{16} * 1024 * 1024;

Error to_error(const jinja::Fault& fault, const std::string& source) {
  std::string where = "chat template";
  if (fault.at != jinja::kNowhere) where += ", " + jinja::describe(source, fault.at);
  return {fault.code, fault.what, std::move(where), ""};
}

class ParsedTemplate final : public ChatTemplate {
 public:
  ParsedTemplate(jinja::Template parsed, Digest sha256)
      : template_(std::move(parsed)), sha256_(sha256) {}

  [[nodiscard]] Result<std::string> render(const RenderInput& input) const override {
    jinja::Meter meter;
    jinja::Heap heap(meter);
    try {
      jinja::Interpreter interpreter(template_, heap, input.now_us);
      define_input(interpreter, input);
      return interpreter.run();
    } catch (const jinja::Fault& fault) {
      return to_error(fault, template_.source);
    }
  }

  [[nodiscard]] Digest sha256() const override { return sha256_; }

 private:
  /// The variables that Hugging Face's apply_chat_template passes; `variables` may replace them, as its keyword
  /// arguments do.
  static void define_input(jinja::Interpreter& interpreter, const RenderInput& input) {
    jinja::Heap& heap = interpreter.heap();
    const auto define = [&](const char* name, const auto& make) {
      if (!input.variables.contains(name)) interpreter.define(name, make());
    };
    define("messages", [&] { return heap.from_json(input.messages); });
    define("tools", [&] { return heap.from_json(input.tools); });
    define("documents", [] { return jinja::Value::none(); });
    define("add_generation_prompt", [&] { return jinja::Value(input.add_generation_prompt); });
    if (!input.variables.is_object()) return;
    for (const auto& [name, value] : input.variables.items()) {
      interpreter.define(name, heap.from_json(value));
    }
  }

  jinja::Template template_;
  Digest sha256_;
};

/// The template in tokenizer_config.json: a text, or a list of named ones of which "default" counts.
Result<std::optional<std::string>> template_of(const Json& config, const std::string& where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::optional<std::string>();
  if (found->is_string()) return std::optional(found->get<std::string>());
  if (found->is_array()) {
    for (const Json& each : *found) {
      if (!each.is_object() || each.value("name", Json()) != "default") continue;
      const auto text = each.find("template");
      if (text != each.end() && text->is_string()) return std::optional(text->get<std::string>());
    }
    return Error{Errc::unsupported, "chat_template has no template named default", where, ""};
  }
  return Error{Errc::invalid_input, "chat_template is neither a text nor a list", where, ""};
}

Result<std::optional<std::string>> read_source(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") {
    const auto metadata = read_gguf_metadata(path);
    if (!metadata) return metadata.error();
    if (!metadata->has("tokenizer.chat_template")) return std::optional<std::string>();
    const auto text = metadata->text("tokenizer.chat_template");
    if (!text) return text.error();
    return std::optional(*text);
  }
  const auto file = read_file(path / "chat_template.jinja", kTemplateBytesMax);
  if (file) return std::optional(*file);
  if (file.error().code != Errc::not_found) return file.error();
  const auto config_path = path / "tokenizer_config.json";
  const auto config = read_file(config_path, kConfigBytesMax);
  if (!config) {
    if (config.error().code == Errc::not_found) return std::optional<std::string>();
    return config.error();
  }
  const auto json = parse_json(*config);
  if (!json || !json->is_object()) {
    return Error{Errc::invalid_input, "tokenizer_config.json is not a JSON object",
                 config_path.string(), ""};
  }
  return template_of(*json, config_path.string());
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string source) {
  if (!is_utf8(source)) {
    return Error{Errc::invalid_input, "the chat template is not UTF-8", "chat template", ""};
  }
  const Digest digest = verbatim::sha256(source);
  const std::string normalized =
      source.size() <= kTemplateBytesMax ? jinja::normalize_source(source) : "";
  try {
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<ParsedTemplate>(jinja::parse(std::move(source)), digest));
  } catch (const jinja::Fault& fault) {
    return to_error(fault, normalized);
  }
}

Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::filesystem::path& path) {
  const auto source = read_source(path);
  if (!source) return source.error();
  if (!*source) return std::shared_ptr<const ChatTemplate>();
  auto parsed = ChatTemplate::parse(**source);
  if (!parsed) {
    Error error = parsed.error();
    error.where += " of " + path.string();
    return error;
  }
  return parsed;
}

}  // namespace verbatim::local_engine
