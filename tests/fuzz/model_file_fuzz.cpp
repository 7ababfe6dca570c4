// Model files: safetensors, GGUF with its tensors, and configurations. Reading them ends with a model or an error, and a
// model that is read has the memory that it says.

#include "local_engine/files/gguf.hpp"
#include "local_engine/files/safetensors.hpp"
#include "local_engine/model/model_files.hpp"
#include "local_engine/model/weights.hpp"
#include "schema/file.hpp"
#include "tests/fuzz/scratch.hpp"
#include "tests/local_engine/model_bytes.hpp"

namespace verbatim::fuzz {

namespace {

using namespace local_engine;
using test::TinyModel;

/// A byte in front says what kind of file follows.
enum Kind : std::uint8_t { safetensors, gguf, config, index, generation };

TinyModel smallest(const char* architecture = "LlamaForCausalLM") {
  TinyModel model;
  model.architecture = architecture;
  model.layers = 1;
  model.hidden = 8;
  model.intermediate = 4;
  model.heads = model.kv_heads = 1;
  model.vocab = 5;
  if (model.architecture.find("Mixtral") != std::string::npos ||
      model.architecture.find("Moe") != std::string::npos) {
    model.experts = 2;
  }
  return model;
}

const std::filesystem::path& model_folder() {
  static const std::filesystem::path kFolder = [] {
    const auto folder = scratch() / "model";
    std::filesystem::create_directories(folder);
    test::write_tiny_model(folder, smallest());
    return folder;
  }();
  return kFolder;
}

void check_tensors(const TensorSet& set) {
  for (const auto& [name, tensor] : set.tensors) {
    VERBATIM_CHECK(name == tensor.name);
    VERBATIM_CHECK(checked_product(tensor.shape) == tensor.elements);
    bool inside = tensor.data.empty();
    for (const auto& file : set.files) {
      const Bytes all = file->bytes();
      inside = inside || (tensor.data.data() >= all.data() &&
                          tensor.data.data() + tensor.data.size() <= all.data() + all.size());
    }
    VERBATIM_CHECK(inside);
  }
}

/// As far as it goes: everything but the engine's thread.
void check_model(const std::filesystem::path& path) {
  const auto files = open_model(path);
  if (!files) {
    VERBATIM_CHECK(!files.error().what.empty());
    return;
  }
  check_tensors(files->tensors);
  const auto config = read_config(*files);
  if (!config) return;
  VERBATIM_CHECK(check_config(*config).has_value());
  (void)load_weights(*files, *config, nullptr);
}

/// The folder with one file changed, which is then put back.
void check_changed(const char* name, std::string_view bytes) {
  const auto path = model_folder() / name;
  const auto real = read_file(path, 1 << 20);
  test::write_bytes(path, bytes);
  check_model(model_folder());
  if (real) {
    test::write_bytes(path, *real);
  } else {
    std::filesystem::remove(path);
  }
}

void run(std::string_view input) {
  if (input.empty()) return;
  const auto kind = static_cast<std::uint8_t>(input.front());
  input.remove_prefix(1);
  switch (kind) {
    case safetensors: {
      TensorSet set;
      const auto path = scratch_file("one.safetensors", input);
      if (read_safetensors(path, set)) check_tensors(set);
      return check_changed("model.safetensors", input);
    }
    case gguf:
      return check_model(scratch_file("model.gguf", input));
    case config:
      return check_changed("config.json", input);
    case index:
      return check_changed("model.safetensors.index.json", input);
    case generation:
      return check_changed("generation_config.json", input);
    default:
      return;
  }
}

std::string of(Kind kind, const std::string& bytes) {
  return std::string(1, static_cast<char>(kind)) + bytes;
}

std::vector<std::string> seeds() {
  const TinyModel model = smallest();
  std::vector<std::string> all = {
      of(safetensors, test::safetensors_bytes(test::tiny_tensors(model), "F32")),
      of(safetensors, test::safetensors_bytes({{"a", {{2, 1}, {1, 2}}}}, "BF16")),
      of(gguf, test::gguf_bytes(model)),
      of(gguf, test::gguf_bytes(smallest("MixtralForCausalLM"))),
      of(index, R"({"metadata":{"total_size":8},"weight_map":{"a":"model.safetensors"}})"),
      of(generation, R"({"eos_token_id":[2,3],"repetition_penalty":1.1})")};
  for (const char* architecture : {"LlamaForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM",
                                   "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Gemma2ForCausalLM",
                                   "Gemma3ForCausalLM", "Phi3ForCausalLM", "OlmoeForCausalLM"}) {
    Json json = test::tiny_config(smallest(architecture));
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
    all.push_back(of(config, json.dump()));
  }
  Json yarn = test::tiny_config(model);
  yarn["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  all.push_back(of(config, yarn.dump()));
  yarn["rope_scaling"] = {
      {"type", "longrope"}, {"long_factor", {1.0, 2.0}}, {"short_factor", {1.0, 1.0}}};
  all.push_back(of(config, yarn.dump()));
  return all;
}

const Registration kModelFile(
    {"model_file",
     run,
     seeds,
     {"\"dtype\":\"BF16\"", "\"shape\":[", "\"data_offsets\":[0,", "__metadata__",
      "general.alignment", "\"rope_scaling\":{", "\"rope_type\":\"",
      "\"factor\":", "\"head_dim\":", "\"sliding_window\":", "\"layer_types\":[",
      "\"num_experts\":", "1e300", "-1", "18446744073709551615", "null", "[]",
      std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8), "../x.safetensors"}});

}  // namespace

}  // namespace verbatim::fuzz
