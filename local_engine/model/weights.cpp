#include "local_engine/model/weights.hpp"

#include "kernels/backend.hpp"
#include "local_engine/model/weight_source.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace verbatim::local_engine {
namespace {

/// llama-architecture GGUFs hold the rows of each head of q and k interleaved: row 2i + s of a head
/// is row s * head_dim / 2 + i of Hugging Face's.
template <class T>
void unpermute(std::vector<T>& rows, std::size_t head_dim) {
  const std::vector<T> stored = rows;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const std::size_t i = at % head_dim;
    rows[at - i + (i % 2) * (head_dim / 2) + i / 2] = stored[at];
  }
}

/// q, k and v, in one matrix or in three.
Result<void> load_qkv(WeightSource& source, const ModelConfig& config, std::size_t index,
                      LayerWeights& layer) {
  if (config.fused_projections) {
    auto fused =
        source.linear(in_layer(index, "self_attn.qkv_proj.weight", "attn_qkv.weight"),
                      (config.heads + 2 * config.kv_heads) * config.head_dim, config.hidden_size);
    if (!fused) return fused.error();
    layer.qkv = std::move(*fused);
    return {};
  }
  struct Part {
    const char* hugging_face;
    const char* gguf;
    std::size_t heads;
    bool rotated;
  };
  const Part parts[] = {{"self_attn.q_proj", "attn_q", config.heads, true},
                        {"self_attn.k_proj", "attn_k", config.kv_heads, true},
                        {"self_attn.v_proj", "attn_v", config.kv_heads, false}};
  std::vector<WeightRows> stack;
  std::vector<float> biases;
  for (const auto& part : parts) {
    const std::size_t rows = part.heads * config.head_dim;
    const auto names = [&](const char* kind) {
      return in_layer(index, std::string(part.hugging_face) + kind, std::string(part.gguf) + kind);
    };
    auto weights = source.rows(names(".weight"), rows, config.hidden_size);
    if (!weights) return weights.error();
    const bool permuted = source.gguf() && config.architecture == "llama" && part.rotated;
    if (permuted) unpermute(weights->rows, config.head_dim);
    stack.push_back(std::move(*weights));
    if (!config.qkv_bias) continue;
    auto bias = source.vector(names(".bias"), rows);
    if (!bias) return bias.error();
    if (permuted) unpermute(*bias, config.head_dim);
    biases.insert(biases.end(), bias->begin(), bias->end());
  }
  layer.qkv = source.stacked(std::move(stack));
  layer.qkv.bias = std::move(biases);
  return {};
}

Result<void> load_norms(WeightSource& source, const ModelConfig& config, std::size_t index,
                        LayerWeights& layer) {
  struct Norm {
    bool wanted;
    const char* hugging_face;
    const char* gguf;
    std::size_t size;
    std::vector<float>* into;
  };
  // With norms after the branches, Hugging Face's "post_attention_layernorm" is one of those; else it
  // is the one before the feed-forward.
  const bool post = config.post_norms;
  const bool each_head = config.qk_norm == QkNorm::each_head;
  const std::size_t hidden = config.hidden_size, head_dim = config.head_dim;
  const Norm norms[] = {
      {true, "input_layernorm", "attn_norm", hidden, &layer.attention_norm},
      {post, "post_attention_layernorm", "post_attention_norm", hidden, &layer.post_attention_norm},
      {true, post ? "pre_feedforward_layernorm" : "post_attention_layernorm", "ffn_norm", hidden,
       &layer.feed_forward_norm},
      {post, "post_feedforward_layernorm", "post_ffw_norm", hidden, &layer.post_feed_forward_norm},
      {config.qk_norm != QkNorm::none, "self_attn.q_norm", "attn_q_norm",
       (each_head ? 1 : config.heads) * head_dim, &layer.q_norm},
      {config.qk_norm != QkNorm::none, "self_attn.k_norm", "attn_k_norm",
       (each_head ? 1 : config.kv_heads) * head_dim, &layer.k_norm}};
  for (const auto& each : norms) {
    if (!each.wanted) continue;
    auto weights = source.norm(in_layer(index, std::string(each.hugging_face) + ".weight",
                                        std::string(each.gguf) + ".weight"),
                               each.size);
    if (!weights) return weights.error();
    *each.into = std::move(*weights);
  }
  return {};
}

Result<void> load_attention(WeightSource& source, const ModelConfig& config, std::size_t index,
                            LayerWeights& layer) {
  if (const auto done = load_qkv(source, config, index, layer); !done) return done.error();
  auto output = source.linear(in_layer(index, "self_attn.o_proj.weight", "attn_output.weight"),
                              config.hidden_size, config.heads * config.head_dim);
  if (!output) return output.error();
  layer.output = std::move(*output);
  if (!config.output_bias) return {};
  auto bias = source.vector(in_layer(index, "self_attn.o_proj.bias", "attn_output.bias"),
                            config.hidden_size);
  if (!bias) return bias.error();
  layer.output.bias = std::move(*bias);
  return {};
}

/// Gate and up, in one matrix or in two.
Result<Linear> load_gate_up(WeightSource& source, const ModelConfig& config, std::size_t index) {
  const std::size_t width = config.intermediate_size;
  if (config.fused_projections)
    return source.linear(in_layer(index, "mlp.gate_up_proj.weight", "ffn_up.weight"), 2 * width,
                         config.hidden_size);
  std::vector<WeightRows> stack;
  std::vector<float> biases;
  for (const auto& names : {in_layer(index, "mlp.gate_proj.", "ffn_gate."),
                            in_layer(index, "mlp.up_proj.", "ffn_up.")}) {
    auto weights = source.rows({names.hugging_face + "weight", names.gguf + "weight"}, width,
                               config.hidden_size);
    if (!weights) return weights.error();
    stack.push_back(std::move(*weights));
    if (!config.mlp_bias) continue;
    const auto bias = source.vector({names.hugging_face + "bias", names.gguf + "bias"}, width);
    if (!bias) return bias.error();
    biases.insert(biases.end(), bias->begin(), bias->end());
  }
  Linear out = source.stacked(std::move(stack));
  out.bias = std::move(biases);
  return out;
}

Result<void> load_dense(WeightSource& source, const ModelConfig& config, std::size_t index,
                        FeedForward& out) {
  auto gate_up = load_gate_up(source, config, index);
  if (!gate_up) return gate_up.error();
  out.gate_up = std::move(*gate_up);
  auto down = source.linear(in_layer(index, "mlp.down_proj.weight", "ffn_down.weight"),
                            config.hidden_size, config.intermediate_size);
  if (!down) return down.error();
  out.down = std::move(*down);
  if (!config.mlp_bias) return {};
  auto bias =
      source.vector(in_layer(index, "mlp.down_proj.bias", "ffn_down.bias"), config.hidden_size);
  if (!bias) return bias.error();
  out.down.bias = std::move(*bias);
  return {};
}

Result<void> load_experts(WeightSource& source, const ModelConfig& config, std::size_t index,
                          LayerWeights& layer) {
  const bool mixtral = config.architecture == "MixtralForCausalLM";
  const std::string prefix = mixtral ? "block_sparse_moe." : "mlp.";
  auto router = source.linear(in_layer(index, prefix + "gate.weight", "ffn_gate_inp.weight"),
                              config.moe.experts, config.hidden_size);
  if (!router) return router.error();
  layer.router = std::move(*router);

  const std::size_t width = config.moe.intermediate_size;
  struct Part {
    const char* hugging_face;
    const char* gguf;
    std::size_t rows, cols;
  };
  const Part gate{mixtral ? "w1.weight" : "gate_proj.weight", "ffn_gate_exps.weight", width,
                  config.hidden_size};
  const Part up{mixtral ? "w3.weight" : "up_proj.weight", "ffn_up_exps.weight", width,
                config.hidden_size};
  const Part down{mixtral ? "w2.weight" : "down_proj.weight", "ffn_down_exps.weight",
                  config.hidden_size, width};
  for (std::size_t expert = 0; expert < config.moe.experts; ++expert) {
    const std::string each = prefix + "experts." + std::to_string(expert) + ".";
    FeedForward out;
    for (const auto& [parts, into] : {std::pair{std::vector<Part>{gate, up}, &out.gate_up},
                                      std::pair{std::vector<Part>{down}, &out.down}}) {
      std::vector<WeightRows> stack;
      for (const auto& part : parts) {
        auto rows = source.expert_rows(in_layer(index, each + part.hugging_face, part.gguf), expert,
                                       part.rows, part.cols);
        if (!rows) return rows.error();
        stack.push_back(std::move(*rows));
      }
      *into = source.stacked(std::move(stack));
    }
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
  if (factors->second.dtype != kernels::Dtype::f32 || factors->second.elements > 65'536)
    return Error{Errc::invalid_input, "tensor 'rope_freqs.weight' is malformed", "", ""};
  hints.rope_factors.resize(factors->second.elements);
  std::memcpy(hints.rope_factors.data(), factors->second.data.data(), factors->second.data.size());
  return hints;
}

}  // namespace

std::size_t Linear::rows() const {
  std::size_t count = 0;
  for (const auto& part : parts) count += part.rows();
  return count;
}

std::size_t Linear::cols() const { return parts.empty() ? 0 : parts.front().cols(); }

bool ModelWeights::read_from_files() const {
  const auto quantised = [](const Linear& linear) {
    return std::any_of(linear.parts.begin(), linear.parts.end(),
                       [](const auto& part) { return part.row_data() != nullptr; });
  };
  const auto any = [&](const FeedForward& each) {
    return quantised(each.gate_up) || quantised(each.down);
  };
  return quantised(embedding) || quantised(lm_head) ||
         std::any_of(layers.begin(), layers.end(), [&](const LayerWeights& layer) {
           return quantised(layer.qkv) || quantised(layer.output) || quantised(layer.router) ||
                  any(layer.dense) || std::any_of(layer.experts.begin(), layer.experts.end(), any);
         });
}

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
  WeightSource source(files, config, pool);
  ModelWeights weights;
  auto embedding = source.linear({"model.embed_tokens.weight", "token_embd.weight"},
                                 config.vocab_size, config.hidden_size);
  if (!embedding) return embedding.error();
  weights.embedding = std::move(*embedding);
  for (std::size_t i = 0; i < config.layers; ++i) {
    LayerWeights layer;
    if (const auto done = load_norms(source, config, i, layer); !done) return done.error();
    if (const auto done = load_attention(source, config, i, layer); !done) return done.error();
    const auto done = config.moe_layers[i] ? load_experts(source, config, i, layer)
                                           : load_dense(source, config, i, layer.dense);
    if (!done) return done.error();
    weights.layers.push_back(std::move(layer));
  }
  auto norm = source.norm({"model.norm.weight", "output_norm.weight"}, config.hidden_size);
  if (!norm) return norm.error();
  weights.final_norm = std::move(*norm);
  if (!config.tied) {
    auto head =
        source.linear({"lm_head.weight", "output.weight"}, config.vocab_size, config.hidden_size);
    if (!head) return head.error();
    weights.lm_head = std::move(*head);
  }
  if (const auto checked = source.refuse_unused(); !checked) return checked.error();
  weights.files = files.tensors.files;
  return weights;
}

Result<HostModel> load_host_model(const ModelFiles& files, int threads) {
  kernels::make_floating_point_exact();
  auto config = read_config(files);
  if (!config) return config.error();
  HostModel model;
  model.config = std::move(*config);
  model.pool = std::make_shared<kernels::ThreadPool>(threads);
  model.path = files.path.string();
  auto weights = load_weights(files, model.config, model.pool.get());
  if (!weights) return weights.error();
  if (!weights->read_from_files()) weights->files.clear();
  model.weights = std::make_shared<const ModelWeights>(std::move(*weights));
  return model;
}

}  // namespace verbatim::local_engine
