#pragma once
// The shape of a model, from config.json or from a GGUF's key-values, in one form.

#include "local_engine/text/gguf_metadata.hpp"
#include "local_engine/token.hpp"
#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// How positions become angles (numerics.md section 3). Kinds whose table depends on the length
/// reached so far (dynamic NTK, longrope beyond its original length) are refused: they break
/// decode == prefill.
enum class RopeKind { plain, linear, llama3, yarn, factors };

struct RopeConfig {
  RopeKind kind = RopeKind::plain;
  double theta = 10000;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3
  double original_positions = 0;                     ///< llama3, yarn
  double beta_fast = 32, beta_slow = 1;              ///< yarn
  bool truncate = true;                              ///< yarn: its range goes to whole dimensions
  double attention_factor = 0;  ///< of all cosines and sines; 0: what the kind says
  /// What `factors` divides by, one a pair: a GGUF's rope_freqs.weight, longrope's short_factor.
  std::vector<float> factors;
};

/// Mixture of experts; none when `experts` is 0.
struct MoeConfig {
  std::size_t experts = 0;
  std::size_t experts_per_token = 0;
  std::size_t intermediate_size = 0;  ///< of one expert
  bool renormalize = true;  ///< softmax over the chosen, else entries of the softmax over all
};

enum class Activation { silu, gelu_tanh };

/// RMSNorm of q and k before the rotation: none, of each head by itself, of all heads together.
enum class QkNorm { none, each_head, all_heads };

/// Everything that decides the computation but the weights. All sizes are at least 1 and bounded,
/// and fit each other.
struct ModelConfig {
  std::string architecture;  ///< "LlamaForCausalLM"; a GGUF's "llama"
  std::string dtype;         ///< as config.json says; "" when it does not
  std::size_t hidden_size = 0;
  std::size_t intermediate_size = 0;
  std::size_t layers = 0;
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
  std::size_t vocab_size = 0;
  std::size_t context_max = 0;  ///< positions
  double rms_norm_eps = 0;
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  ///< of layers with a window, where theirs is another
  std::size_t rotary_dim = 0;            ///< how many elements of a head rotate, from its first on
  double attention_scalar =
      0;  ///< scores are multiplied by attention_scalar^-0.5; head_dim usually
  double attention_softcap = 0, final_softcap = 0;  ///< 0: none
  float embedding_scale = 1;
  Activation activation = Activation::silu;
  bool post_norms = false;         ///< a norm after each branch too, before it is added
  bool norm_plus_one = false;      ///< the file holds w where norms multiply by 1 + w
  bool fused_projections = false;  ///< the file holds q, k, v as one matrix, and gate, up as one
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool tied = false;                 ///< lm_head is the embedding
  std::vector<std::size_t> windows;  ///< of each layer; 0: none
  MoeConfig moe;
  std::vector<bool> moe_layers;  ///< of each layer: experts instead of one feed-forward
  std::vector<TokenId> eos_ids;
};

/// From a Hugging Face config.json. `invalid_input` names the key; `unsupported` names the
/// architecture, activation, rope kind, quantisation or layer type that this build does not
/// compute.
[[nodiscard]] Result<ModelConfig> config_from_json(const Json& json);

/// What no key of a GGUF says, but its tensors do.
struct GgufHints {
  bool has_output = false;  ///< output.weight: else it is tied
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  std::uint64_t vocab_rows = 0;     ///< of token_embd.weight
  std::vector<float> rope_factors;  ///< of rope_freqs.weight, if there is one
};
/// From a GGUF of architecture llama, qwen2, qwen3, qwen3moe, gemma, gemma2, gemma3, phi3 or olmoe.
/// Errors as above.
[[nodiscard]] Result<ModelConfig> config_from_gguf(const GgufMetadata& metadata,
                                                   const GgufHints& hints);

/// Bounds and consistency of the sizes, whichever file they came from.
[[nodiscard]] Result<void> check_config(const ModelConfig& config);

}  // namespace verbatim::local_engine
