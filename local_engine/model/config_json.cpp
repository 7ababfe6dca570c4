// config.json of Hugging Face -> ModelConfig.

#include "local_engine/files/tensor.hpp"
#include "local_engine/model/config.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace verbatim::local_engine {
namespace {

Error wrong(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }
Error unsupported(std::string what) { return {Errc::unsupported, std::move(what), "", ""}; }

/// Members of one object. A member of another kind than asked for is an error, never a default.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  /// The member, unless it is absent or null: the same thing in these files.
  [[nodiscard]] const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  [[nodiscard]] Result<std::size_t> size(const char* key,
                                         std::optional<std::size_t> fallback = {}) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr || !value->is_number_unsigned()) return missing(key, value, "a size");
    return value->get<std::size_t>();
  }
  [[nodiscard]] Result<double> number(const char* key, std::optional<double> fallback = {}) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr || !value->is_number()) return missing(key, value, "a number");
    return value->get<double>();
  }
  [[nodiscard]] Result<bool> boolean(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return missing(key, value, "a boolean");
    return value->get<bool>();
  }
  [[nodiscard]] Result<std::string> text(const char* key,
                                         std::optional<std::string> fallback = {}) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr || !value->is_string()) return missing(key, value, "a string");
    return value->get<std::string>();
  }

 private:
  static Error missing(const char* key, const Json* value, const char* expected) {
    return wrong(std::string("'") + key + "' is " +
                 (value == nullptr ? "missing" : std::string("not ") + expected));
  }
  const Json& json_;
};

/// What is fixed by the name of an architecture.
struct Family {
  std::string_view architecture;
  bool configurable_bias;  // attention_bias and mlp_bias are read
  bool qkv_bias;
  bool qk_norm;
  enum class Window { none, every_layer, qwen } window;
  enum class Experts { none, mixtral, qwen3 } experts;
  bool tied_default;
};
constexpr std::array<Family, 6> kFamilies{{
    {"LlamaForCausalLM", true, false, false, Family::Window::none, Family::Experts::none, false},
    {"MistralForCausalLM", false, false, false, Family::Window::every_layer, Family::Experts::none,
     false},
    {"Qwen2ForCausalLM", false, true, false, Family::Window::qwen, Family::Experts::none, false},
    {"Qwen3ForCausalLM", true, false, true, Family::Window::qwen, Family::Experts::none, false},
    {"MixtralForCausalLM", false, false, false, Family::Window::every_layer,
     Family::Experts::mixtral, false},
    {"Qwen3MoeForCausalLM", true, false, true, Family::Window::qwen, Family::Experts::qwen3, false},
}};

Result<const Family*> find_family(const Members& members) {
  const Json* list = members.find("architectures");
  if (list == nullptr || !list->is_array() || list->size() != 1 || !list->front().is_string())
    return wrong("'architectures' does not name one architecture");
  const auto& name = list->front().get_ref<const std::string&>();
  const auto* family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                    [&](const auto& f) { return f.architecture == name; });
  if (family == kFamilies.end()) return unsupported("architecture " + printable(name));
  return family;
}

Result<void> refuse_what_changes_the_computation(const Members& members) {
  if (members.find("quantization_config") != nullptr)
    return unsupported("quantization_config: quantised safetensors");
  const auto activation = members.text("hidden_act", "silu");
  if (!activation) return activation.error();
  if (*activation != "silu" && *activation != "swish")
    return unsupported("hidden_act " + printable(*activation));
  for (const char* key : {"partial_rotary_factor", "attention_multiplier", "residual_multiplier",
                          "embedding_multiplier", "logits_scaling"}) {
    const auto factor = members.number(key, 1);
    if (!factor) return factor.error();
    if (*factor != 1) return unsupported(std::string(key) + " other than 1");
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (members.find(key) != nullptr) return unsupported(std::string(key));
  }
  return {};
}

Result<RopeConfig> read_rope(const Members& members) {
  RopeConfig rope;
  // Newer files spell it rope_parameters and keep theta in it.
  const Json* scaling = members.find("rope_parameters");
  if (scaling == nullptr) scaling = members.find("rope_scaling");
  const auto theta = members.number("rope_theta", 10000);
  if (!theta) return theta.error();
  rope.theta = *theta;
  if (scaling == nullptr) return rope;
  if (!scaling->is_object()) return wrong("'rope_scaling' is not an object");
  const Members kind(*scaling);
  const auto legacy_name = kind.text("type", "default");
  if (!legacy_name) return legacy_name.error();
  const auto name = kind.text("rope_type", *legacy_name);
  if (!name) return name.error();
  if (*name == "default") {
    rope.kind = RopeKind::plain;
  } else if (*name == "linear") {
    rope.kind = RopeKind::linear;
  } else if (*name == "llama3") {
    rope.kind = RopeKind::llama3;
  } else {
    return unsupported("rope kind " + printable(*name));
  }
  const struct {
    const char* key;
    double* value;
  } numbers[] = {{"rope_theta", &rope.theta},
                 {"factor", &rope.factor},
                 {"low_freq_factor", &rope.low_freq_factor},
                 {"high_freq_factor", &rope.high_freq_factor},
                 {"original_max_position_embeddings", &rope.original_positions}};
  for (const auto& number : numbers) {
    const auto value = kind.number(number.key, *number.value);
    if (!value) return value.error();
    *number.value = *value;
  }
  if (rope.kind != RopeKind::plain && kind.find("factor") == nullptr)
    return wrong("rope kind " + *name + " has no factor");
  return rope;
}

/// The window of each layer.
Result<std::vector<std::size_t>> read_windows(const Members& members, const Family& family,
                                              std::size_t layers) {
  std::vector<std::size_t> windows(layers, 0);
  std::size_t window = 0;
  if (members.find("sliding_window") != nullptr) {
    const auto value = members.size("sliding_window");
    if (!value) return value.error();
    if (*value == 0) return wrong("'sliding_window' is 0");
    window = *value;
  }
  bool used = family.window == Family::Window::every_layer;
  std::size_t first = 0;
  if (family.window == Family::Window::qwen) {
    const auto flag = members.boolean("use_sliding_window", false);
    if (!flag) return flag.error();
    used = *flag;
    const auto full = members.size("max_window_layers", layers);
    if (!full) return full.error();
    first = *full;
  }
  if (used) {
    for (std::size_t i = first; i < layers; ++i) windows[i] = window;
  }
  const Json* types = members.find("layer_types");
  if (types == nullptr) return windows;
  if (!types->is_array() || types->size() != layers)
    return wrong("'layer_types' has another length");
  for (std::size_t i = 0; i < layers; ++i) {
    const auto& type = (*types)[i];
    if (type == "full_attention") {
      windows[i] = 0;
    } else if (type == "sliding_attention" && window > 0) {
      windows[i] = window;
    } else {
      return unsupported("layer type " + printable(type.dump(-1, ' ', true)));
    }
  }
  return windows;
}

Result<void> read_experts(const Members& members, const Family& family, ModelConfig& config) {
  config.moe_layers.assign(config.layers, false);
  if (family.experts == Family::Experts::none) {
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      const auto count = members.size(key, 0);
      if (!count) return count.error();
      if (*count > 1) return unsupported(std::string(family.architecture) + " with " + key);
    }
    return {};
  }
  const bool mixtral = family.experts == Family::Experts::mixtral;
  const auto experts = members.size(mixtral ? "num_local_experts" : "num_experts");
  if (!experts) return experts.error();
  const auto chosen = members.size("num_experts_per_tok");
  if (!chosen) return chosen.error();
  const auto width = mixtral ? Result<std::size_t>(config.intermediate_size)
                             : members.size("moe_intermediate_size");
  if (!width) return width.error();
  if (*experts == 0) return wrong("the number of experts is 0");
  config.moe = {*experts, *chosen, *width, true};
  config.moe_layers.assign(config.layers, true);
  if (mixtral) return {};

  const auto renormalize = members.boolean("norm_topk_prob", false);
  if (!renormalize) return renormalize.error();
  config.moe.renormalize = *renormalize;
  const auto step = members.size("decoder_sparse_step", 1);
  if (!step) return step.error();
  if (*step == 0) return wrong("'decoder_sparse_step' is 0");
  for (std::size_t i = 0; i < config.layers; ++i) config.moe_layers[i] = (i + 1) % *step == 0;
  if (const Json* dense = members.find("mlp_only_layers"); dense != nullptr) {
    if (!dense->is_array()) return wrong("'mlp_only_layers' is not an array");
    for (const auto& index : *dense) {
      if (!index.is_number_unsigned() || index.get<std::size_t>() >= config.layers)
        return wrong("'mlp_only_layers' names a layer that is not there");
      config.moe_layers[index.get<std::size_t>()] = false;
    }
  }
  return {};
}

Result<void> read_sizes(const Members& members, ModelConfig& config) {
  const struct {
    const char* key;
    std::size_t* value;
  } required[] = {
      {"hidden_size", &config.hidden_size},  {"intermediate_size", &config.intermediate_size},
      {"num_hidden_layers", &config.layers}, {"num_attention_heads", &config.heads},
      {"vocab_size", &config.vocab_size},    {"max_position_embeddings", &config.context_max}};
  for (const auto& size : required) {
    const auto value = members.size(size.key);
    if (!value) return value.error();
    *size.value = *value;
  }
  const auto kv_heads = members.size("num_key_value_heads", config.heads);
  if (!kv_heads) return kv_heads.error();
  config.kv_heads = *kv_heads;
  if (config.heads == 0) return wrong("'num_attention_heads' is 0");
  const auto head_dim = members.size("head_dim", config.hidden_size / config.heads);
  if (!head_dim) return head_dim.error();
  config.head_dim = *head_dim;
  if (config.layers > 1024) return wrong("'num_hidden_layers' is " + std::to_string(config.layers));
  return {};
}

Result<void> read_flags(const Members& members, const Family& family, ModelConfig& config) {
  const auto attention_bias = members.boolean("attention_bias", false);
  if (!attention_bias) return attention_bias.error();
  const auto mlp_bias = members.boolean("mlp_bias", false);
  if (!mlp_bias) return mlp_bias.error();
  if (!family.configurable_bias && (*attention_bias || *mlp_bias))
    return unsupported(std::string(family.architecture) + " with attention_bias or mlp_bias");
  config.qkv_bias = family.qkv_bias || *attention_bias;
  config.output_bias = *attention_bias;
  config.mlp_bias = *mlp_bias;
  config.qk_norm = family.qk_norm;
  const auto tied = members.boolean("tie_word_embeddings", family.tied_default);
  if (!tied) return tied.error();
  config.tied = *tied;
  return {};
}

}  // namespace

Result<ModelConfig> config_from_json(const Json& json) {
  if (!json.is_object()) return wrong("not a JSON object");
  const Members members(json);
  const auto family = find_family(members);
  if (!family) return family.error();
  if (const auto known = refuse_what_changes_the_computation(members); !known) return known.error();

  ModelConfig config;
  config.architecture = (*family)->architecture;
  const auto legacy_dtype = members.text("torch_dtype", "");
  if (!legacy_dtype) return legacy_dtype.error();
  const auto dtype = members.text("dtype", *legacy_dtype);
  if (!dtype) return dtype.error();
  config.dtype = *dtype;
  if (const auto done = read_sizes(members, config); !done) return done.error();
  const auto eps = members.number("rms_norm_eps", 1e-6);
  if (!eps) return eps.error();
  config.rms_norm_eps = *eps;
  const auto rope = read_rope(members);
  if (!rope) return rope.error();
  config.rope = *rope;
  if (const auto done = read_flags(members, **family, config); !done) return done.error();
  const auto windows = read_windows(members, **family, config.layers);
  if (!windows) return windows.error();
  config.windows = *windows;
  if (const auto done = read_experts(members, **family, config); !done) return done.error();
  if (const auto checked = check_config(config); !checked) return checked.error();
  return config;
}

}  // namespace verbatim::local_engine
