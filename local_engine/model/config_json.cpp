// config.json of Hugging Face -> ModelConfig.

#include "kernels/dtype.hpp"
#include "local_engine/files/tensor.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/config_members.hpp"
#include "local_engine/model/config_rope.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace verbatim::local_engine {
namespace {

/// What is fixed by the name of an architecture, and its defaults.
struct Family {
  std::string_view architecture;
  enum class Bias { none, qkv, attention, all } bias = Bias::none;  // the last two as configured
  QkNorm qk_norm = QkNorm::none;
  enum class Window { none, every_layer, qwen, gemma2, gemma3 } window = Window::none;
  enum class Experts { none, mixtral, qwen3, olmoe } experts = Experts::none;
  int gemma = 0;  // its generation
  bool phi3 = false;

  [[nodiscard]] bool tied_default() const { return gemma > 0; }
  [[nodiscard]] double theta_default() const { return gemma == 3 ? 1e6 : 1e4; }
};
constexpr std::array<Family, 11> kFamilies{{
    {.architecture = "LlamaForCausalLM", .bias = Family::Bias::all},
    {.architecture = "MistralForCausalLM", .window = Family::Window::every_layer},
    {.architecture = "Qwen2ForCausalLM", .bias = Family::Bias::qkv, .window = Family::Window::qwen},
    {.architecture = "Qwen3ForCausalLM",
     .bias = Family::Bias::all,
     .qk_norm = QkNorm::each_head,
     .window = Family::Window::qwen},
    {.architecture = "MixtralForCausalLM",
     .window = Family::Window::every_layer,
     .experts = Family::Experts::mixtral},
    {.architecture = "Qwen3MoeForCausalLM",
     .bias = Family::Bias::all,
     .qk_norm = QkNorm::each_head,
     .window = Family::Window::qwen,
     .experts = Family::Experts::qwen3},
    {.architecture = "OlmoeForCausalLM",
     .bias = Family::Bias::attention,
     .qk_norm = QkNorm::all_heads,
     .experts = Family::Experts::olmoe},
    {.architecture = "Phi3ForCausalLM", .window = Family::Window::every_layer, .phi3 = true},
    {.architecture = "GemmaForCausalLM", .bias = Family::Bias::attention, .gemma = 1},
    {.architecture = "Gemma2ForCausalLM",
     .bias = Family::Bias::attention,
     .window = Family::Window::gemma2,
     .gemma = 2},
    {.architecture = "Gemma3ForCausalLM",
     .bias = Family::Bias::attention,
     .qk_norm = QkNorm::each_head,
     .window = Family::Window::gemma3,
     .gemma = 3},
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

Result<void> refuse_what_changes_the_computation(const Members& members, const Family& family) {
  if (members.find("quantization_config") != nullptr)
    return unsupported("quantization_config: quantised safetensors");
  for (const char* key :
       {"attention_multiplier", "residual_multiplier", "embedding_multiplier", "logits_scaling"}) {
    const auto factor = members.number(key, 1);
    if (!factor) return factor.error();
    if (*factor != 1) return unsupported(std::string(key) + " other than 1");
  }
  const auto both_ways = members.boolean("use_bidirectional_attention", false);
  if (!both_ways) return both_ways.error();
  if (*both_ways) return unsupported("use_bidirectional_attention");
  std::vector<const char*> keys{"clip_qkv"};
  if (family.gemma < 2)
    keys.insert(keys.end(), {"attn_logit_softcapping", "final_logit_softcapping"});
  for (const char* key : keys) {
    if (members.find(key) != nullptr)
      return unsupported(std::string(family.architecture) + " with " + key);
  }
  return {};
}

/// The gate's activation. Gemma's configurations say "gelu" under hidden_act and mean the tanh form:
/// the later hidden_activation decides.
Result<Activation> read_activation(const Members& members, const Family& family) {
  const char* key = family.gemma > 0 ? "hidden_activation" : "hidden_act";
  const auto name = members.text(key, family.gemma > 0 ? "gelu_pytorch_tanh" : "silu");
  if (!name) return name.error();
  if (*name == "silu" || *name == "swish") return Activation::silu;
  if (*name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  return unsupported(std::string(key) + " " + printable(*name));
}

/// What only Gemma has. Defaults are those of its second and third generation's own configuration.
Result<void> read_gemma(const Members& members, const Family& family, ModelConfig& config) {
  config.norm_plus_one = true;
  config.post_norms = family.gemma >= 2;
  // sqrt(hidden), as a number of the model's own type.
  const double root = std::sqrt(static_cast<double>(config.hidden_size));
  config.embedding_scale = static_cast<float>(root);
  if (config.dtype == "bfloat16") {
    config.embedding_scale = kernels::bf16_to_f32(kernels::f32_to_bf16(config.embedding_scale));
  } else if (config.dtype == "float16") {
    config.embedding_scale = kernels::f16_to_f32(kernels::f32_to_f16(config.embedding_scale));
  } else if (!config.dtype.empty() && config.dtype != "float32") {
    return unsupported("torch_dtype " + printable(config.dtype));
  }
  if (family.gemma == 1) return {};

  const auto scalar = members.number("query_pre_attn_scalar", 256);
  if (!scalar) return scalar.error();
  config.attention_scalar = *scalar;
  const struct {
    const char* key;
    double fallback;
    double* value;
  } caps[] = {{"attn_logit_softcapping", family.gemma == 2 ? 50.0 : 0, &config.attention_softcap},
              {"final_logit_softcapping", family.gemma == 2 ? 30.0 : 0, &config.final_softcap}};
  for (const auto& cap : caps) {
    const auto value = members.number(cap.key, members.is_null(cap.key) ? 0 : cap.fallback);
    if (!value) return value.error();
    *cap.value = *value;
  }
  return {};
}

/// The window of each layer.
Result<std::vector<std::size_t>> read_windows(const Members& members, const Family& family,
                                              std::size_t layers) {
  std::vector<std::size_t> windows(layers, 0);
  const bool alternating =
      family.window == Family::Window::gemma2 || family.window == Family::Window::gemma3;
  std::size_t window = alternating && !members.is_null("sliding_window") ? 4096 : 0;
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
  if (alternating) {
    // Every second layer sees all, or every sixth.
    const auto pattern =
        members.size("sliding_window_pattern", family.window == Family::Window::gemma2 ? 2 : 6);
    if (!pattern) return pattern.error();
    if (*pattern == 0) return wrong("'sliding_window_pattern' is 0");
    for (std::size_t i = 0; i < layers; ++i) windows[i] = (i + 1) % *pattern == 0 ? 0 : window;
  }
  const Json* types = members.find("layer_types");
  if (types == nullptr) return windows;
  if (!types->is_array() || types->size() != layers)
    return wrong("'layer_types' has another length");
  for (std::size_t i = 0; i < layers; ++i) {
    const Json& type = (*types)[i];
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    if (name == "full_attention") {
      windows[i] = 0;
    } else if (name == "sliding_attention" && window > 0) {
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
  const bool own_width = family.experts == Family::Experts::qwen3;
  const auto experts = members.size(mixtral ? "num_local_experts" : "num_experts");
  if (!experts) return experts.error();
  const auto chosen = members.size("num_experts_per_tok");
  if (!chosen) return chosen.error();
  const auto width = own_width ? members.size("moe_intermediate_size")
                               : Result<std::size_t>(config.intermediate_size);
  if (!width) return width.error();
  if (*experts == 0) return wrong("the number of experts is 0");
  config.moe = {*experts, *chosen, *width, true};
  config.moe_layers.assign(config.layers, true);
  if (mixtral) return {};

  const auto renormalize = members.boolean("norm_topk_prob", false);
  if (!renormalize) return renormalize.error();
  config.moe.renormalize = *renormalize;
  if (family.experts == Family::Experts::olmoe) return {};
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

Result<void> read_sizes(const Members& members, const Family& family, ModelConfig& config) {
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
  const auto head_dim =
      members.size("head_dim", family.gemma > 0 ? 256 : config.hidden_size / config.heads);
  if (!head_dim) return head_dim.error();
  config.head_dim = *head_dim;
  config.attention_scalar = static_cast<double>(*head_dim);
  const auto rotated = members.number("partial_rotary_factor", 1);
  if (!rotated) return rotated.error();
  if (*rotated != 1 && !family.phi3) return unsupported("partial_rotary_factor other than 1");
  if (!(*rotated > 0 && *rotated <= 1)) return wrong("'partial_rotary_factor' is not in (0, 1]");
  config.rotary_dim = static_cast<std::size_t>(static_cast<double>(*head_dim) * *rotated);
  if (config.layers > 1024) return wrong("'num_hidden_layers' is " + std::to_string(config.layers));
  return {};
}

Result<void> read_flags(const Members& members, const Family& family, ModelConfig& config) {
  const auto attention_bias = members.boolean("attention_bias", false);
  if (!attention_bias) return attention_bias.error();
  const auto mlp_bias = members.boolean("mlp_bias", false);
  if (!mlp_bias) return mlp_bias.error();
  using Bias = Family::Bias;
  if ((*attention_bias && family.bias != Bias::attention && family.bias != Bias::all) ||
      (*mlp_bias && family.bias != Bias::all))
    return unsupported(std::string(family.architecture) + " with attention_bias or mlp_bias");
  config.qkv_bias = family.bias == Bias::qkv || *attention_bias;
  config.output_bias = *attention_bias;
  config.mlp_bias = *mlp_bias;
  config.qk_norm = family.qk_norm;
  config.fused_projections = family.phi3;
  const auto tied = members.boolean("tie_word_embeddings", family.tied_default());
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
  if (const auto known = refuse_what_changes_the_computation(members, **family); !known)
    return known.error();

  ModelConfig config;
  config.architecture = (*family)->architecture;
  const auto legacy_dtype = members.text("torch_dtype", "");
  if (!legacy_dtype) return legacy_dtype.error();
  const auto dtype = members.text("dtype", *legacy_dtype);
  if (!dtype) return dtype.error();
  config.dtype = *dtype;
  if (const auto done = read_sizes(members, **family, config); !done) return done.error();
  const auto eps = members.number("rms_norm_eps", 1e-6);
  if (!eps) return eps.error();
  config.rms_norm_eps = *eps;
  const auto activation = read_activation(members, **family);
  if (!activation) return activation.error();
  config.activation = *activation;
  auto ropes = read_ropes(members, (*family)->theta_default(), (*family)->gemma == 3);
  if (!ropes) return ropes.error();
  config.rope = std::move(ropes->rope);
  config.local_rope = std::move(ropes->local);
  if ((*family)->gemma > 0) {
    if (const auto done = read_gemma(members, **family, config); !done) return done.error();
  }
  if (const auto done = read_flags(members, **family, config); !done) return done.error();
  const auto windows = read_windows(members, **family, config.layers);
  if (!windows) return windows.error();
  config.windows = *windows;
  if (const auto done = read_experts(members, **family, config); !done) return done.error();
  if (const auto checked = check_config(config); !checked) return checked.error();
  return config;
}

}  // namespace verbatim::local_engine
