#pragma once
// The weights of a model in the form in which the kernels read them.

#include "kernels/matmul/matmul.hpp"
#include "kernels/thread_pool.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/model_files.hpp"
#include "schema/error.hpp"

#include <memory>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// y = W x + bias. The rows of W lie in one matrix or in several, each of one element type.
struct Linear {
  std::vector<kernels::PackedWeights> parts;  ///< of equal cols
  std::vector<float> bias;                    ///< (rows), or empty
  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] std::size_t cols() const;
};

/// One gated feed-forward: down(activation(gate(x)) * up(x)).
struct FeedForward {
  Linear gate_up;  ///< (2 * intermediate, hidden): gate's rows, then up's
  Linear down;     ///< (hidden, intermediate)
};

struct LayerWeights {
  std::vector<float> attention_norm;       ///< (hidden)
  Linear qkv;                              ///< ((heads + 2 kv_heads) * head_dim, hidden): q, k, v
  std::vector<float> q_norm, k_norm;       ///< (head_dim), (all heads * head_dim), or empty
  Linear output;                           ///< (hidden, heads * head_dim)
  std::vector<float> post_attention_norm;  ///< (hidden), or empty
  std::vector<float> feed_forward_norm;    ///< (hidden)
  std::vector<float> post_feed_forward_norm;  ///< (hidden), or empty
  FeedForward dense;                          ///< unless the layer has experts
  Linear router;                              ///< (experts, hidden)
  std::vector<FeedForward> experts;
};

struct ModelWeights {
  Linear embedding;  ///< (vocab, hidden), one part
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;                         ///< (hidden)
  Linear lm_head;                                        ///< (vocab, hidden); empty when tied
  std::vector<std::shared_ptr<const MappedFile>> files;  ///< quantised rows are read from them
  /// True when a product reads the files themselves: then they must stay as they were.
  [[nodiscard]] bool read_from_files() const;
};

/// The shape of an opened model, eos_ids included. Errors as config_from_json() and
/// config_from_gguf(), naming the file.
[[nodiscard]] Result<ModelConfig> read_config(const ModelFiles& files);

/// Copies every float tensor that `config` calls for out of `files`; quantised ones stay in the
/// mappings, which the result keeps. A GGUF's permuted q and k rows are put back in the order of
/// Hugging Face, so that both files give the same bits. `invalid_input`: a tensor is missing, has
/// another shape, or is not part of the architecture; `unsupported`: an element type that the
/// kernels do not know, by name. A tied model's own lm_head.weight is not used: the configuration
/// decides.
[[nodiscard]] Result<ModelWeights> load_weights(const ModelFiles& files, const ModelConfig& config,
                                                kernels::ThreadPool* pool);

/// A model in the host's memory: what every backend starts from. Copies share the weights.
struct HostModel {
  ModelConfig config;
  std::shared_ptr<const ModelWeights> weights;
  std::shared_ptr<kernels::ThreadPool> pool;
  std::string path;  ///< for errors
};
/// Brings the weights into the kernels' form: floats are copied, quantised rows are read from the
/// mapped file as they are needed. `threads`: of the pool; 0: all cores. Errors as read_config() and load_weights().
[[nodiscard]] Result<HostModel> load_host_model(const ModelFiles& files, int threads);

}  // namespace verbatim::local_engine
