#include "local_engine/model/model_files.hpp"

#include "local_engine/files/gguf.hpp"
#include "local_engine/files/safetensors.hpp"
#include "schema/file.hpp"

#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::uint64_t kJsonBytesMax = 64u << 20;
constexpr std::uint64_t kTemplateBytesMax = 4u << 20;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Null when the file is absent.
Result<Json> read_json(const std::filesystem::path& file) {
  if (!is_there(file)) return Result<Json>(boost::system::in_place_value, nullptr);
  const auto text = read_file(file, kJsonBytesMax);
  if (!text) return text.error();
  auto json = parse_json(*text);
  if (!json) return Error{Errc::invalid_input, json.error().message(), file.string(), ""};
  return json;
}

Result<ModelFiles> open_gguf(const std::filesystem::path& path) {
  auto file = read_gguf(path);
  if (!file) return file.error();
  ModelFiles files;
  files.path = path;
  files.tensors = std::move(file->tensors);
  files.gguf = std::move(file->metadata);
  const auto chat_template = files.gguf->text("tokenizer.chat_template", "");
  if (!chat_template) return chat_template.error();
  files.chat_template = *chat_template;
  files.has_tokenizer = files.gguf->has("tokenizer.ggml.model");
  return files;
}

Result<ModelFiles> open_folder(const std::filesystem::path& path) {
  ModelFiles files;
  files.path = path;
  if (!is_there(path / "config.json"))
    return Error{Errc::not_found, "no config.json", path.string(),
                 "give a Hugging Face folder or a .gguf file"};
  auto text = read_file(path / "config.json", kJsonBytesMax);
  if (!text) return text.error();
  files.config_text = std::move(*text);
  auto config = read_json(path / "config.json");
  if (!config) return config.error();
  files.config = std::move(*config);
  auto generation = read_json(path / "generation_config.json");
  if (!generation) return generation.error();
  files.generation_config = std::move(*generation);
  auto chat_template = read_chat_template(path);
  if (!chat_template) return chat_template.error();
  files.chat_template = std::move(*chat_template);
  files.has_tokenizer = is_there(path / "tokenizer.json");
  auto tensors = read_safetensors_folder(path);
  if (!tensors) return tensors.error();
  files.tensors = std::move(*tensors);
  return files;
}

}  // namespace

Result<std::string> read_chat_template(const std::filesystem::path& folder) {
  if (is_there(folder / "chat_template.jinja"))
    return read_file(folder / "chat_template.jinja", kTemplateBytesMax);
  const auto file = folder / "tokenizer_config.json";
  const auto config = read_json(file);
  if (!config) return config.error();
  if (!config->is_object() || !config->contains("chat_template")) return std::string();
  const Json& value = config->at("chat_template");
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const auto& named : value) {
      if (named.is_object() && named.value("name", Json()) == "default" &&
          named.value("template", Json()).is_string())
        return named.at("template").get<std::string>();
    }
    return std::string();
  }
  return Error{Errc::invalid_input, "'chat_template' is neither a string nor a list", file.string(),
               ""};
}

Result<ModelFiles> open_model(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::directory) return open_folder(path);
  if (status.type() == std::filesystem::file_type::not_found)
    return Error{Errc::not_found, "no such model", path.string(), ""};
  if (is_gguf(path)) return open_gguf(path);
  return Error{Errc::invalid_input, "neither a folder nor a GGUF file", path.string(),
               "give a Hugging Face folder or a .gguf file"};
}

}  // namespace verbatim::local_engine
