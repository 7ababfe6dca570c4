// Key-values of a GGUF -> ModelConfig.

#include "local_engine/files/tensor.hpp"
#include "local_engine/model/config.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace verbatim::local_engine {
namespace {

Error wrong(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }
Error unsupported(std::string what) { return {Errc::unsupported, std::move(what), "", ""}; }

struct Family {
  std::string_view architecture;
  bool qk_norm;
  bool experts;
};
// "llama" is Llama, Mistral and Mixtral.
constexpr std::array<Family, 4> kFamilies{{{"llama", false, true},
                                           {"qwen2", false, false},
                                           {"qwen3", true, false},
                                           {"qwen3moe", true, true}}};

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

Result<void> read_sizes(const Keys& keys, const GgufHints& hints, ModelConfig& config) {
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
  if (*rotated != config.head_dim) return unsupported("rope over a part of each head");
  return {};
}

Result<void> read_rope(const Keys& keys, const GgufHints& hints, RopeConfig& rope) {
  const auto theta = keys.number("rope.freq_base", 10000);
  if (!theta) return theta.error();
  rope.theta = *theta;
  const auto kind = keys.text("rope.scaling.type", "none");
  if (!kind) return kind.error();
  if (*kind == "linear") {
    rope.kind = RopeKind::linear;
    const auto factor = keys.number("rope.scaling.factor");
    if (!factor) return factor.error();
    rope.factor = *factor;
  } else if (*kind != "none") {
    return unsupported("rope kind " + printable(*kind));
  }
  if (hints.rope_factors.empty()) return {};
  if (rope.kind != RopeKind::plain) return unsupported("rope_freqs.weight with another rope kind");
  rope.kind = RopeKind::factors;
  rope.factors = hints.rope_factors;
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
  // Both architectures renormalise unless a key says otherwise.
  config.moe = {*experts, *chosen, *width, true};
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
  if (const auto done = read_sizes(keys, hints, config); !done) return done.error();
  const auto eps = keys.number("attention.layer_norm_rms_epsilon");
  if (!eps) return eps.error();
  config.rms_norm_eps = *eps;
  if (const auto done = read_rope(keys, hints, config.rope); !done) return done.error();
  for (const char* scale :
       {"logit_scale", "residual_scale", "embedding_scale", "attention.scale"}) {
    if (keys.has(scale)) return unsupported(std::string("key ") + scale);
  }
  config.qkv_bias = hints.has_qkv_bias;
  config.output_bias = hints.has_output_bias;
  config.qk_norm = family->qk_norm;
  config.tied = !hints.has_output;
  const auto window = keys.integer("attention.sliding_window", 0);
  if (!window) return window.error();
  config.windows.assign(config.layers, *window);
  if (const auto done = read_experts(keys, *family, config); !done) return done.error();
  const auto eos = read_eos(metadata);
  if (!eos) return eos.error();
  config.eos_ids = *eos;
  if (const auto checked = check_config(config); !checked) return checked.error();
  return config;
}

}  // namespace verbatim::local_engine
