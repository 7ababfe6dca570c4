// Key-values of a GGUF -> ModelConfig.

#include "local_engine/files/tensor.hpp"
#include "local_engine/model/config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace verbatim::local_engine {
namespace {

Error wrong(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }
Error unsupported(const std::string& what) {
  return {Errc::unsupported, what + " is not supported", "", ""};
}

struct Family {
  std::string_view architecture;
  QkNorm qk_norm = QkNorm::none;
  bool experts = false;
  bool renormalize = true;  // the chosen experts' weights; no key says so
  int gemma = 0;            // its generation
  bool phi3 = false;
};
// "llama" is Llama, Mistral and Mixtral.
constexpr std::array<Family, 9> kFamilies{{
    {.architecture = "llama", .experts = true},
    {.architecture = "qwen2"},
    {.architecture = "qwen3", .qk_norm = QkNorm::each_head},
    {.architecture = "qwen3moe", .qk_norm = QkNorm::each_head, .experts = true},
    {.architecture = "olmoe", .qk_norm = QkNorm::all_heads, .experts = true, .renormalize = false},
    {.architecture = "phi3", .phi3 = true},
    {.architecture = "gemma", .gemma = 1},
    {.architecture = "gemma2", .gemma = 2},
    {.architecture = "gemma3", .qk_norm = QkNorm::each_head, .gemma = 3},
}};

/// Keys of one architecture: "llama." + name.
class Keys {
 public:
  Keys(const GgufMetadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix)) {}
  [[nodiscard]] bool has(std::string_view name) const { return metadata_.has(key(name)); }
  [[nodiscard]] Result<std::uint64_t> integer(std::string_view name,
                                              std::optional<std::uint64_t> fallback = {}) const {
    return metadata_.integer(key(name), fallback);
  }
  [[nodiscard]] Result<double> number(std::string_view name,
                                      std::optional<double> fallback = {}) const {
    return metadata_.number(key(name), fallback);
  }
  [[nodiscard]] Result<std::string> text(std::string_view name, std::string fallback) const {
    return metadata_.text(key(name), std::move(fallback));
  }

 private:
  [[nodiscard]] std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  const GgufMetadata& metadata_;
  std::string prefix_;
};

Result<void> read_sizes(const Keys& keys, const Family& family, const GgufHints& hints,
                        ModelConfig& config) {
  const struct {
    const char* name;
    std::optional<std::uint64_t> fallback;
    std::size_t* value;
  } sizes[] = {{"embedding_length", {}, &config.hidden_size},
               {"feed_forward_length", {}, &config.intermediate_size},
               {"block_count", {}, &config.layers},
               {"attention.head_count", {}, &config.heads},
               {"vocab_size", hints.vocab_rows, &config.vocab_size},
               {"context_length", {}, &config.context_max}};
  for (const auto& size : sizes) {
    const auto value = keys.integer(size.name, size.fallback);
    if (!value) return value.error();
    *size.value = *value;
  }
  if (config.heads == 0) return wrong("attention.head_count is 0");
  if (config.layers > 1024) return wrong("block_count is " + std::to_string(config.layers));
  const auto kv_heads = keys.integer("attention.head_count_kv", config.heads);
  if (!kv_heads) return kv_heads.error();
  config.kv_heads = *kv_heads;
  const auto head_dim = keys.integer("attention.key_length", config.hidden_size / config.heads);
  if (!head_dim) return head_dim.error();
  config.head_dim = *head_dim;
  const auto value_dim = keys.integer("attention.value_length", config.head_dim);
  if (!value_dim) return value_dim.error();
  if (*value_dim != config.head_dim) return unsupported("values of another length than keys");
  const auto rotated = keys.integer("rope.dimension_count", config.head_dim);
  if (!rotated) return rotated.error();
  if (*rotated != config.head_dim && !family.phi3)
    return unsupported("rope over a part of each head");
  config.rotary_dim = *rotated;
  config.attention_scalar = static_cast<double>(config.head_dim);
  return {};
}

Result<void> read_rope(const Keys& keys, const GgufHints& hints, double context, RopeConfig& rope) {
  const auto theta = keys.number("rope.freq_base", rope.theta);
  if (!theta) return theta.error();
  rope.theta = *theta;
  for (const char* key : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                          "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_beta_fast",
                          "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_log_multiplier"}) {
    if (keys.has(key)) return unsupported(std::string("key ") + key);
  }
  const auto kind = keys.text("rope.scaling.type", "none");
  if (!kind) return kind.error();
  if (*kind == "linear" || *kind == "yarn") {
    rope.kind = *kind == "yarn" ? RopeKind::yarn : RopeKind::linear;
    const auto factor = keys.number("rope.scaling.factor");
    if (!factor) return factor.error();
    rope.factor = *factor;
    const auto original = keys.number("rope.scaling.original_context_length", context);
    if (!original) return original.error();
    rope.original_positions = *original;
  } else if (*kind != "none") {
    return unsupported("rope kind " + printable(*kind));
  }
  if (hints.rope_factors.empty()) return {};
  if (rope.kind != RopeKind::plain) return unsupported("rope_freqs.weight with another rope kind");
  rope.kind = RopeKind::factors;
  rope.factors = hints.rope_factors;
  return {};
}

/// What only Gemma has. A GGUF does not say the type that the model was trained in: the embedding's
/// scale is the f32 root. Neither does it say query_pre_attn_scalar, which is hidden / heads in the
/// largest models of the second and third generation, told by their number of layers.
Result<void> read_gemma(const Keys& keys, const Family& family, ModelConfig& config) {
  config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_size)));
  config.activation = Activation::gelu_tanh;
  config.post_norms = family.gemma >= 2;
  if (family.gemma == 1) return {};
  if (config.layers == (family.gemma == 2 ? 46u : 62u))
    config.attention_scalar =
        static_cast<double>(config.hidden_size) / static_cast<double>(config.heads);
  const struct {
    const char* key;
    double* value;
    double fallback;
  } caps[] = {{"attn_logit_softcapping", &config.attention_softcap, family.gemma == 2 ? 50 : 0.0},
              {"final_logit_softcapping", &config.final_softcap, family.gemma == 2 ? 30 : 0.0}};
  for (const auto& cap : caps) {
    const auto value = keys.number(cap.key, cap.fallback);
    if (!value) return value.error();
    *cap.value = *value;
  }
  if (family.gemma == 2) return {};
  config.local_rope.emplace();
  const auto theta = keys.number("rope.freq_base_swa", 10000);
  if (!theta) return theta.error();
  config.local_rope->theta = *theta;
  return {};
}

Result<void> read_windows(const Keys& keys, const Family& family, ModelConfig& config) {
  const bool alternating = family.gemma >= 2;
  const auto window = keys.integer("attention.sliding_window", alternating ? 4096 : 0);
  if (!window) return window.error();
  config.windows.assign(config.layers, *window);
  if (!alternating) return {};
  // Every second layer sees all, or every sixth.
  const auto pattern = keys.integer("attention.sliding_window_pattern", family.gemma == 2 ? 2 : 6);
  if (!pattern) return pattern.error();
  if (*pattern == 0) return wrong("attention.sliding_window_pattern is 0");
  for (std::size_t i = 0; i < config.layers; ++i) {
    if ((i + 1) % *pattern == 0) config.windows[i] = 0;
  }
  return {};
}

Result<void> read_experts(const Keys& keys, const Family& family, ModelConfig& config) {
  config.moe_layers.assign(config.layers, false);
  const auto experts = keys.integer("expert_count", 0);
  if (!experts) return experts.error();
  if (*experts == 0) return {};
  if (!family.experts) return unsupported(std::string(family.architecture) + " with experts");
  const auto chosen = keys.integer("expert_used_count");
  if (!chosen) return chosen.error();
  const auto width = keys.integer("expert_feed_forward_length", config.intermediate_size);
  if (!width) return width.error();
  const auto shared = keys.integer("expert_shared_count", 0);
  if (!shared) return shared.error();
  if (*shared != 0) return unsupported("shared experts");
  config.moe = {*experts, *chosen, *width, family.renormalize};
  config.moe_layers.assign(config.layers, true);
  return {};
}

Result<std::vector<TokenId>> read_eos(const GgufMetadata& metadata) {
  std::vector<TokenId> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
    const auto id = metadata.integer(key, kNone);
    if (!id) return id.error();
    if (*id == kNone) continue;
    if (*id > static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max()))
      return wrong(std::string(key) + " is out of range");
    const auto token = static_cast<TokenId>(*id);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  return ids;
}

}  // namespace

Result<ModelConfig> config_from_gguf(const GgufMetadata& metadata, const GgufHints& hints) {
  const auto name = metadata.text("general.architecture");
  if (!name) return name.error();
  const auto* family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                    [&](const auto& f) { return f.architecture == *name; });
  if (family == kFamilies.end()) return unsupported("architecture " + printable(*name));
  const Keys keys(metadata, *name + ".");

  ModelConfig config;
  config.architecture = *name;
  if (const auto done = read_sizes(keys, *family, hints, config); !done) return done.error();
  const auto eps = keys.number("attention.layer_norm_rms_epsilon");
  if (!eps) return eps.error();
  config.rms_norm_eps = *eps;
  if (family->gemma == 3) config.rope.theta = 1e6;
  const auto context = static_cast<double>(config.context_max);
  if (const auto done = read_rope(keys, hints, context, config.rope); !done) return done.error();
  for (const char* scale : {"logit_scale", "residual_scale", "embedding_scale", "attention.scale",
                            "attention.clamp_kqv"}) {
    if (keys.has(scale)) return unsupported(std::string("key ") + scale);
  }
  config.qkv_bias = hints.has_qkv_bias;
  config.output_bias = hints.has_output_bias;
  config.qk_norm = family->qk_norm;
  config.tied = !hints.has_output;
  config.fused_projections = family->phi3;
  if (family->gemma > 0) {
    if (const auto done = read_gemma(keys, *family, config); !done) return done.error();
  }
  if (const auto done = read_windows(keys, *family, config); !done) return done.error();
  if (const auto done = read_experts(keys, *family, config); !done) return done.error();
  const auto eos = read_eos(metadata);
  if (!eos) return eos.error();
  config.eos_ids = *eos;
  if (const auto checked = check_config(config); !checked) return checked.error();
  return config;
}

}  // namespace verbatim::local_engine
