#include "local_engine/model/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace verbatim::local_engine {
namespace {

using kernels::PackedWeights;
using kernels::WeightsView;
using Shape = std::vector<std::uint64_t>;

/// The two spellings of a tensor's name.
struct Names {
  std::string hugging_face, gguf;
};

Names in_layer(std::size_t layer, const std::string& hugging_face, const std::string& gguf) {
  const auto index = std::to_string(layer);
  return {"model.layers." + index + "." + hugging_face, "blk." + index + "." + gguf};
}

kernels::Dtype kernel_dtype(DType dtype) {
  if (dtype == DType::bf16) return kernels::Dtype::bf16;
  return dtype == DType::f16 ? kernels::Dtype::f16 : kernels::Dtype::f32;
}

/// A matrix on its way to the kernels: borrowed from the file, or own bytes when they had to be
/// changed.
struct Matrix {
  std::uint64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  Bytes data;
  ByteVector owned;
  [[nodiscard]] WeightsView view() const {
    return {owned.empty() ? data.data() : owned.data(), kernel_dtype(dtype), rows, cols};
  }
};

/// Hands out the tensors of a model and remembers which were asked for.
class Source {
 public:
  Source(const ModelFiles& files, const ModelConfig& config, kernels::ThreadPool* pool)
      : files_(files), config_(config), pool_(pool) {}

  Result<const Tensor*> take(const Names& names, const Shape& shape) {
    const auto& name = files_.gguf ? names.gguf : names.hugging_face;
    const auto found = files_.tensors.tensors.find(name);
    if (found == files_.tensors.tensors.end()) return wrong("no tensor '" + name + "'");
    const Tensor& tensor = found->second;
    if (tensor.shape != shape)
      return wrong("tensor '" + name + "' has shape " + shape_text(tensor.shape) + ", not " +
                   shape_text(shape));
    if (tensor.dtype == DType::other)
      return Error{Errc::unsupported, "tensor '" + name + "' is of type " + tensor.type_name,
                   files_.path.string(), "use a file with F32, F16 or BF16 weights"};
    used_.insert(name);
    return &tensor;
  }

  Result<Matrix> matrix(const Names& names, std::uint64_t rows, std::uint64_t cols) {
    const auto tensor = take(names, {rows, cols});
    if (!tensor) return tensor.error();
    return Matrix{rows, cols, (*tensor)->dtype, (*tensor)->data, {}};
  }

  Result<std::vector<float>> vector(const Names& names, std::uint64_t size) {
    const auto tensor = take(names, {size});
    if (!tensor) return tensor.error();
    std::vector<float> values(size);
    kernels::to_f32((*tensor)->data.data(), kernel_dtype((*tensor)->dtype), size, values.data());
    return values;
  }

  Result<PackedWeights> packed(const Names& names, std::uint64_t rows, std::uint64_t cols) {
    const auto weights = matrix(names, rows, cols);
    if (!weights) return weights.error();
    return PackedWeights(weights->view(), pool_);
  }

  /// Rows stacked in order. If their element types differ, all become f32, which changes no value.
  PackedWeights stacked(std::vector<Matrix> parts) {
    const bool same = std::all_of(parts.begin(), parts.end(),
                                  [&](const auto& p) { return p.dtype == parts[0].dtype; });
    std::vector<WeightsView> views;
    for (auto& part : parts) {
      if (!same) widen(part);
      views.push_back(part.view());
    }
    return PackedWeights(std::span<const WeightsView>(views), pool_);
  }

  /// Every tensor of the file must have been asked for.
  Result<void> refuse_unused() const {
    for (const auto& [name, tensor] : files_.tensors.tensors) {
      if (used_.contains(name)) continue;
      // Tied by configuration: the copy of the embedding that some files carry is not read.
      if (config_.tied && name == "lm_head.weight") continue;
      // Derived tables that old converters stored.
      if (!files_.gguf && name.ends_with(".rotary_emb.inv_freq")) continue;
      if (files_.gguf && name == "rope_freqs.weight") continue;  // in the configuration already
      return wrong("tensor '" + printable(name) + "' is no part of " + config_.architecture);
    }
    return {};
  }

  [[nodiscard]] bool permuted() const { return files_.gguf && config_.architecture == "llama"; }
  [[nodiscard]] bool gguf() const { return files_.gguf.has_value(); }
  Error wrong(std::string what) const {
    return {Errc::invalid_input, std::move(what), files_.path.string(), ""};
  }

 private:
  static void widen(Matrix& part) {
    const auto view = part.view();
    ByteVector wide(part.rows * part.cols * sizeof(float));
    kernels::to_f32(view.data, view.dtype, part.rows * part.cols,
                    reinterpret_cast<float*>(wide.data()));
    part.owned = std::move(wide);
    part.dtype = DType::f32;
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  kernels::ThreadPool* pool_;
  std::set<std::string, std::less<>> used_;
};

/// llama-architecture GGUFs hold the rows of each head of q and k interleaved: row 2i + s of a head
/// is row s * head_dim / 2 + i of Hugging Face's.
void unpermute(Matrix& weights, std::size_t heads, std::size_t head_dim) {
  const std::size_t row_bytes = weights.cols * dtype_bytes(weights.dtype);
  ByteVector ordered(weights.data.size());
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = 0; i < head_dim / 2; ++i) {
      for (std::size_t side = 0; side < 2; ++side) {
        const std::size_t from = head * head_dim + 2 * i + side;
        const std::size_t to = head * head_dim + side * (head_dim / 2) + i;
        std::memcpy(ordered.data() + to * row_bytes, weights.data.data() + from * row_bytes,
                    row_bytes);
      }
    }
  }
  weights.owned = std::move(ordered);
}

std::vector<float> unpermute(const std::vector<float>& bias, std::size_t heads,
                             std::size_t head_dim) {
  std::vector<float> ordered(bias.size());
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = 0; i < head_dim; ++i)
      ordered[head * head_dim + (i % 2) * (head_dim / 2) + i / 2] = bias[head * head_dim + i];
  }
  return ordered;
}

Result<void> load_attention(Source& source, const ModelConfig& config, std::size_t index,
                            LayerWeights& layer) {
  struct Part {
    const char* hugging_face;
    const char* gguf;
    std::size_t heads;
    bool rotated;
  };
  const Part parts[] = {{"self_attn.q_proj", "attn_q", config.heads, true},
                        {"self_attn.k_proj", "attn_k", config.kv_heads, true},
                        {"self_attn.v_proj", "attn_v", config.kv_heads, false}};
  std::vector<Matrix> stack;
  for (const auto& part : parts) {
    const std::size_t rows = part.heads * config.head_dim;
    auto weights = source.matrix(in_layer(index, std::string(part.hugging_face) + ".weight",
                                          std::string(part.gguf) + ".weight"),
                                 rows, config.hidden_size);
    if (!weights) return weights.error();
    const bool permuted = source.permuted() && part.rotated;
    if (permuted) unpermute(*weights, part.heads, config.head_dim);
    stack.push_back(std::move(*weights));
    if (!config.qkv_bias) continue;
    auto bias = source.vector(
        in_layer(index, std::string(part.hugging_face) + ".bias", std::string(part.gguf) + ".bias"),
        rows);
    if (!bias) return bias.error();
    if (permuted) bias = unpermute(*bias, part.heads, config.head_dim);
    layer.qkv_bias.insert(layer.qkv_bias.end(), bias->begin(), bias->end());
  }
  layer.qkv = source.stacked(std::move(stack));

  auto output = source.packed(in_layer(index, "self_attn.o_proj.weight", "attn_output.weight"),
                              config.hidden_size, config.heads * config.head_dim);
  if (!output) return output.error();
  layer.output = std::move(*output);

  struct Optional {
    bool wanted;
    Names names;
    std::size_t size;
    std::vector<float>* into;
  };
  const Optional vectors[] = {
      {true, in_layer(index, "input_layernorm.weight", "attn_norm.weight"), config.hidden_size,
       &layer.attention_norm},
      {true, in_layer(index, "post_attention_layernorm.weight", "ffn_norm.weight"),
       config.hidden_size, &layer.feed_forward_norm},
      {config.output_bias, in_layer(index, "self_attn.o_proj.bias", "attn_output.bias"),
       config.hidden_size, &layer.output_bias},
      {config.qk_norm, in_layer(index, "self_attn.q_norm.weight", "attn_q_norm.weight"),
       config.head_dim, &layer.q_norm},
      {config.qk_norm, in_layer(index, "self_attn.k_norm.weight", "attn_k_norm.weight"),
       config.head_dim, &layer.k_norm}};
  for (const auto& each : vectors) {
    if (!each.wanted) continue;
    auto values = source.vector(each.names, each.size);
    if (!values) return values.error();
    *each.into = std::move(*values);
  }
  return {};
}

Result<void> load_dense(Source& source, const ModelConfig& config, std::size_t index,
                        FeedForward& out) {
  const std::size_t width = config.intermediate_size;
  std::vector<Matrix> stack;
  for (const auto& names : {in_layer(index, "mlp.gate_proj.", "ffn_gate."),
                            in_layer(index, "mlp.up_proj.", "ffn_up.")}) {
    auto weights = source.matrix({names.hugging_face + "weight", names.gguf + "weight"}, width,
                                 config.hidden_size);
    if (!weights) return weights.error();
    stack.push_back(std::move(*weights));
    if (!config.mlp_bias) continue;
    const auto bias = source.vector({names.hugging_face + "bias", names.gguf + "bias"}, width);
    if (!bias) return bias.error();
    out.gate_up_bias.insert(out.gate_up_bias.end(), bias->begin(), bias->end());
  }
  out.gate_up = source.stacked(std::move(stack));
  auto down = source.packed(in_layer(index, "mlp.down_proj.weight", "ffn_down.weight"),
                            config.hidden_size, width);
  if (!down) return down.error();
  out.down = std::move(*down);
  if (!config.mlp_bias) return {};
  auto bias =
      source.vector(in_layer(index, "mlp.down_proj.bias", "ffn_down.bias"), config.hidden_size);
  if (!bias) return bias.error();
  out.down_bias = std::move(*bias);
  return {};
}

/// One expert's matrix: a tensor of its own in Hugging Face's files, a slice of a stack in a GGUF.
Result<Matrix> expert_matrix(Source& source, const ModelConfig& config, std::size_t index,
                             std::size_t expert, const std::string& hugging_face,
                             const std::string& gguf, std::size_t rows, std::size_t cols) {
  const auto names = in_layer(index, hugging_face, gguf);
  if (!source.gguf()) return source.matrix(names, rows, cols);
  const auto tensor = source.take(names, {config.moe.experts, rows, cols});
  if (!tensor) return tensor.error();
  const std::size_t bytes = rows * cols * dtype_bytes((*tensor)->dtype);
  return Matrix{rows, cols, (*tensor)->dtype, (*tensor)->data.subspan(expert * bytes, bytes), {}};
}

Result<void> load_experts(Source& source, const ModelConfig& config, std::size_t index,
                          LayerWeights& layer) {
  const bool mixtral = config.architecture == "MixtralForCausalLM";
  const std::string prefix = mixtral ? "block_sparse_moe." : "mlp.";
  auto router = source.packed(in_layer(index, prefix + "gate.weight", "ffn_gate_inp.weight"),
                              config.moe.experts, config.hidden_size);
  if (!router) return router.error();
  layer.router = std::move(*router);
  const std::size_t width = config.moe.intermediate_size;
  for (std::size_t expert = 0; expert < config.moe.experts; ++expert) {
    const std::string each = prefix + "experts." + std::to_string(expert) + ".";
    FeedForward out;
    auto gate = expert_matrix(source, config, index, expert,
                              each + (mixtral ? "w1.weight" : "gate_proj.weight"),
                              "ffn_gate_exps.weight", width, config.hidden_size);
    if (!gate) return gate.error();
    auto up = expert_matrix(source, config, index, expert,
                            each + (mixtral ? "w3.weight" : "up_proj.weight"), "ffn_up_exps.weight",
                            width, config.hidden_size);
    if (!up) return up.error();
    auto down = expert_matrix(source, config, index, expert,
                              each + (mixtral ? "w2.weight" : "down_proj.weight"),
                              "ffn_down_exps.weight", config.hidden_size, width);
    if (!down) return down.error();
    std::vector<Matrix> stack;
    stack.push_back(std::move(*gate));
    stack.push_back(std::move(*up));
    out.gate_up = source.stacked(std::move(stack));
    stack.clear();
    stack.push_back(std::move(*down));
    out.down = source.stacked(std::move(stack));
    layer.experts.push_back(std::move(out));
  }
  return {};
}

/// eos_token_id is one id or a list; generation_config.json's wins.
Result<std::vector<TokenId>> read_eos(const ModelFiles& files, std::size_t vocab_size) {
  std::vector<TokenId> ids;
  for (const Json* json : {&files.generation_config, &files.config}) {
    if (!json->is_object() || !json->contains("eos_token_id")) continue;
    Json value = json->at("eos_token_id");
    if (value.is_null()) continue;
    if (!value.is_array()) value = Json::array({value});
    for (const auto& id : value) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab_size)
        return Error{Errc::invalid_input, "'eos_token_id' is not an id of the vocabulary", "", ""};
      ids.push_back(id.get<TokenId>());
    }
    return ids;
  }
  return ids;
}

Result<GgufHints> read_hints(const ModelFiles& files) {
  GgufHints hints;
  const auto& tensors = files.tensors.tensors;
  hints.has_output = tensors.contains("output.weight");
  hints.has_qkv_bias = tensors.contains("blk.0.attn_q.bias");
  hints.has_output_bias = tensors.contains("blk.0.attn_output.bias");
  const auto embedding = tensors.find("token_embd.weight");
  if (embedding == tensors.end())
    return Error{Errc::invalid_input, "no tensor 'token_embd.weight': a vocabulary alone", "", ""};
  if (embedding->second.shape.size() == 2) hints.vocab_rows = embedding->second.shape[0];
  const auto factors = tensors.find("rope_freqs.weight");
  if (factors == tensors.end()) return hints;
  if (factors->second.dtype != DType::f32 || factors->second.elements > 65'536)
    return Error{Errc::invalid_input, "tensor 'rope_freqs.weight' is malformed", "", ""};
  hints.rope_factors.resize(factors->second.elements);
  std::memcpy(hints.rope_factors.data(), factors->second.data.data(), factors->second.data.size());
  return hints;
}

}  // namespace

Result<ModelConfig> read_config(const ModelFiles& files) {
  const auto located = [&](Error error) {
    if (error.where.empty())
      error.where = (files.gguf ? files.path : files.path / "config.json").string();
    return error;
  };
  if (files.gguf) {
    const auto hints = read_hints(files);
    if (!hints) return located(hints.error());
    auto config = config_from_gguf(*files.gguf, *hints);
    if (!config) return located(config.error());
    for (const auto id : config->eos_ids) {
      if (static_cast<std::size_t>(id) >= config->vocab_size)
        return located(
            {Errc::invalid_input, "an end-of-sequence id is beyond the vocabulary", "", ""});
    }
    return config;
  }
  auto config = config_from_json(files.config);
  if (!config) return located(config.error());
  const auto eos = read_eos(files, config->vocab_size);
  if (!eos) return located(eos.error());
  config->eos_ids = *eos;
  return config;
}

Result<ModelWeights> load_weights(const ModelFiles& files, const ModelConfig& config,
                                  kernels::ThreadPool* pool) {
  Source source(files, config, pool);
  ModelWeights weights;
  auto embedding = source.packed({"model.embed_tokens.weight", "token_embd.weight"},
                                 config.vocab_size, config.hidden_size);
  if (!embedding) return embedding.error();
  weights.embedding = std::move(*embedding);
  for (std::size_t i = 0; i < config.layers; ++i) {
    LayerWeights layer;
    if (const auto done = load_attention(source, config, i, layer); !done) return done.error();
    const auto done = config.moe_layers[i] ? load_experts(source, config, i, layer)
                                           : load_dense(source, config, i, layer.dense);
    if (!done) return done.error();
    weights.layers.push_back(std::move(layer));
  }
  auto norm = source.vector({"model.norm.weight", "output_norm.weight"}, config.hidden_size);
  if (!norm) return norm.error();
  weights.final_norm = std::move(*norm);
  if (!config.tied) {
    auto head =
        source.packed({"lm_head.weight", "output.weight"}, config.vocab_size, config.hidden_size);
    if (!head) return head.error();
    weights.lm_head = std::move(*head);
  }
  if (const auto checked = source.refuse_unused(); !checked) return checked.error();
  return weights;
}

}  // namespace verbatim::local_engine
