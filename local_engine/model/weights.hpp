#pragma once
// The weights of a model in the form in which the kernels read them.

#include "kernels/matmul/matmul.hpp"
#include "kernels/thread_pool.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/model_files.hpp"
#include "schema/error.hpp"

#include <vector>

namespace verbatim::local_engine {

/// One gated feed-forward: down(silu(gate(x)) * up(x)).
struct FeedForward {
  kernels::PackedWeights gate_up;   ///< (2 * intermediate, hidden): gate's rows, then up's
  kernels::PackedWeights down;      ///< (hidden, intermediate)
  std::vector<float> gate_up_bias;  ///< (2 * intermediate), or empty
  std::vector<float> down_bias;     ///< (hidden), or empty
};

struct LayerWeights {
  std::vector<float> attention_norm;     ///< (hidden)
  kernels::PackedWeights qkv;            ///< ((heads + 2 kv_heads) * head_dim, hidden): q, k, v
  std::vector<float> qkv_bias;           ///< or empty
  std::vector<float> q_norm, k_norm;     ///< (head_dim), or empty
  kernels::PackedWeights output;         ///< (hidden, heads * head_dim)
  std::vector<float> output_bias;        ///< (hidden), or empty
  std::vector<float> feed_forward_norm;  ///< (hidden)
  FeedForward dense;                     ///< unless the layer has experts
  kernels::PackedWeights router;         ///< (experts, hidden)
  std::vector<FeedForward> experts;
};

struct ModelWeights {
  kernels::PackedWeights embedding;  ///< (vocab, hidden)
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;   ///< (hidden)
  kernels::PackedWeights lm_head;  ///< (vocab, hidden); empty when tied
};

/// The shape of an opened model, eos_ids included. Errors as config_from_json() and
/// config_from_gguf(), naming the file.
[[nodiscard]] Result<ModelConfig> read_config(const ModelFiles& files);

/// Copies every tensor that `config` calls for out of `files`, which may be closed afterwards. A
/// GGUF's permuted q and k rows are put back in the order of Hugging Face, so that both files give
/// the same bits. `invalid_input`: a tensor is missing, has another shape, or is not part of the
/// architecture; `unsupported`: a quantised element type, by name. A tied model's own
/// lm_head.weight is not used: the configuration decides.
[[nodiscard]] Result<ModelWeights> load_weights(const ModelFiles& files, const ModelConfig& config,
                                                kernels::ThreadPool* pool);

}  // namespace verbatim::local_engine
