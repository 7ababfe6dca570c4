#include "local_engine/model/config.hpp"

#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace verbatim::local_engine {
namespace {

// Bounds of sanity, so that no product of sizes can overflow and a hostile file cannot ask for
// absurd memory.
constexpr std::size_t kWidthMax = 1u << 20;
constexpr std::size_t kLayersMax = 1024;
constexpr std::size_t kVocabMax = 1u << 24;
constexpr std::size_t kContextMax = 1u << 24;  // RopeTable's own limit
constexpr std::size_t kExpertsMax = 4096;

struct Limit {
  std::string_view name;
  std::size_t value, max;
};

Error wrong(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }

Result<void> check_rope(const RopeConfig& rope, std::size_t rotary_dim) {
  for (const double value :
       {rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.beta_fast, rope.beta_slow}) {
    if (!std::isfinite(value) || value <= 0) return wrong("a rope factor is not positive");
  }
  if ((rope.kind == RopeKind::llama3 || rope.kind == RopeKind::yarn) &&
      !(rope.original_positions >= 1 && rope.original_positions <= kContextMax))
    return wrong("original_max_position_embeddings is missing or impossible");
  if (rope.kind == RopeKind::llama3 && rope.high_freq_factor <= rope.low_freq_factor)
    return wrong("high_freq_factor is not above low_freq_factor");
  if (rope.kind == RopeKind::yarn && rope.factor < 1) return wrong("yarn with a factor below 1");
  if (!std::isfinite(rope.attention_factor) || rope.attention_factor < 0 ||
      rope.attention_factor > 1e6)
    return wrong("attention_factor is impossible");
  if (rope.kind == RopeKind::factors && rope.factors.size() != rotary_dim / 2)
    return wrong("there are " + std::to_string(rope.factors.size()) +
                 " rope factors, not one for each of " + std::to_string(rotary_dim / 2) + " pairs");
  for (const float factor : rope.factors) {
    // Below 1 an inverse frequency could pass 1, which no table holds.
    if (!(factor >= 1 && factor <= 1e6f))
      return wrong("a rope factor of one pair is not between 1 and 1e6");
  }
  return {};
}

}  // namespace

Result<void> check_config(const ModelConfig& config) {
  const std::array<Limit, 8> limits{{{"hidden_size", config.hidden_size, kWidthMax},
                                     {"intermediate_size", config.intermediate_size, kWidthMax},
                                     {"num_hidden_layers", config.layers, kLayersMax},
                                     {"num_attention_heads", config.heads, kWidthMax},
                                     {"num_key_value_heads", config.kv_heads, kWidthMax},
                                     {"head_dim", config.head_dim, 65'536},
                                     {"vocab_size", config.vocab_size, kVocabMax},
                                     {"max_position_embeddings", config.context_max, kContextMax}}};
  for (const auto& limit : limits) {
    if (limit.value == 0 || limit.value > limit.max)
      return wrong(std::string(limit.name) + " is " + std::to_string(limit.value) + ", not 1 to " +
                   std::to_string(limit.max));
  }
  if (config.heads % config.kv_heads != 0)
    return wrong("num_attention_heads " + std::to_string(config.heads) +
                 " is not a multiple of num_key_value_heads " + std::to_string(config.kv_heads));
  if (config.head_dim % 2 != 0)
    return wrong("head_dim " + std::to_string(config.head_dim) + " is odd");
  if (config.heads * config.head_dim > kWidthMax)
    return wrong("num_attention_heads * head_dim is above " + std::to_string(kWidthMax));
  if (!std::isfinite(config.rms_norm_eps) || config.rms_norm_eps < 0 || config.rms_norm_eps > 1)
    return wrong("rms_norm_eps is not between 0 and 1");
  if (config.windows.size() != config.layers || config.moe_layers.size() != config.layers)
    return wrong("layer list of another length than num_hidden_layers");
  const auto& moe = config.moe;
  if (moe.experts > 0 && (moe.experts > kExpertsMax || moe.experts_per_token == 0 ||
                          moe.experts_per_token > moe.experts || moe.intermediate_size == 0 ||
                          moe.intermediate_size > kWidthMax))
    return wrong("experts " + std::to_string(moe.experts) + ", of which " +
                 std::to_string(moe.experts_per_token) + " per token, are impossible");
  if (config.rotary_dim % 2 != 0 || config.rotary_dim == 0 || config.rotary_dim > config.head_dim)
    return wrong("the rotated part of a head, " + std::to_string(config.rotary_dim) + " of " +
                 std::to_string(config.head_dim) + ", is impossible");
  for (const double value : {config.attention_softcap, config.final_softcap}) {
    if (!std::isfinite(value) || value < 0 || value > 1e6) return wrong("a soft-cap is impossible");
  }
  if (!(config.attention_scalar > 0x1p-40 && config.attention_scalar < 0x1p40))
    return wrong("query_pre_attn_scalar is impossible");
  if (const auto checked = check_rope(config.rope, config.rotary_dim); !checked) return checked;
  if (config.local_rope) return check_rope(*config.local_rope, config.rotary_dim);
  return {};
}

}  // namespace verbatim::local_engine
