#pragma once
// Bytes of GGUF files and safetensors shards, for tests that write them well and for tests that
// break them.

#include "tests/support/tiny_model.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::test {

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xffu);
  return out;
}
inline std::string gguf_string(std::string_view text) {
  return little_endian(text.size(), 8) + std::string(text);
}

/// A GGUF in pieces, each of which a test may change before bytes() joins them.
struct GgufParts {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::string> values;  ///< encoded key-values
  std::vector<std::string> infos;   ///< encoded tensor infos
  std::string data;
  std::uint64_t value_count_plus = 0, info_count_plus = 0;  ///< added to the true counts
  std::uint64_t alignment = 32;

  void add_u32(std::string_view key, std::uint32_t value) {
    values.push_back(gguf_string(key) + little_endian(4, 4) + little_endian(value, 4));
  }
  void add_f32(std::string_view key, float value) {
    values.push_back(gguf_string(key) + little_endian(6, 4) +
                     little_endian(std::bit_cast<std::uint32_t>(value), 4));
  }
  void add_text(std::string_view key, std::string_view value) {
    values.push_back(gguf_string(key) + little_endian(8, 4) + gguf_string(value));
  }
  void add_tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
                  std::string_view bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    std::string info = gguf_string(name) + little_endian(dims.size(), 4);
    for (const auto dim : dims) info += little_endian(dim, 8);
    infos.push_back(info + little_endian(type, 4) + little_endian(data.size(), 8));
    data += bytes;
  }
  std::string bytes() const {
    std::string out = magic + little_endian(version, 4) +
                      little_endian(infos.size() + info_count_plus, 8) +
                      little_endian(values.size() + value_count_plus, 8);
    for (const auto& value : values) out += value;
    for (const auto& info : infos) out += info;
    if (infos.empty()) return out;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

/// What a GGUF calls the architecture.
inline std::string gguf_architecture(const TinyModel& model) {
  static const std::map<std::string, std::string> kNames{
      {"LlamaForCausalLM", "llama"},   {"MistralForCausalLM", "llama"},
      {"MixtralForCausalLM", "llama"}, {"Qwen2ForCausalLM", "qwen2"},
      {"Qwen3ForCausalLM", "qwen3"},   {"Qwen3MoeForCausalLM", "qwen3moe"}};
  return kNames.at(model.architecture);
}

/// The name in a GGUF of a tensor in Hugging Face's spelling. That of an expert is the name of the
/// tensor that holds all of them.
inline std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  const auto layer_end = name.find('.', std::string("model.layers.").size());
  const std::string layer = name.substr(13, layer_end - 13);
  const std::string rest = name.substr(layer_end + 1);
  static const std::map<std::string, std::string> kNames{{"input_layernorm", "attn_norm"},
                                                         {"post_attention_layernorm", "ffn_norm"},
                                                         {"self_attn.q_proj", "attn_q"},
                                                         {"self_attn.k_proj", "attn_k"},
                                                         {"self_attn.v_proj", "attn_v"},
                                                         {"self_attn.o_proj", "attn_output"},
                                                         {"self_attn.q_norm", "attn_q_norm"},
                                                         {"self_attn.k_norm", "attn_k_norm"},
                                                         {"mlp.gate_proj", "ffn_gate"},
                                                         {"mlp.up_proj", "ffn_up"},
                                                         {"mlp.down_proj", "ffn_down"},
                                                         {"mlp.gate", "ffn_gate_inp"},
                                                         {"block_sparse_moe.gate", "ffn_gate_inp"}};
  const std::string stem = rest.substr(0, rest.rfind('.'));
  std::string to;
  if (stem.find(".experts.") != std::string::npos) {
    const std::string matrix = stem.substr(stem.rfind('.') + 1);
    to = matrix == "w1" || matrix == "gate_proj" ? "ffn_gate_exps"
         : matrix == "w3" || matrix == "up_proj" ? "ffn_up_exps"
                                                 : "ffn_down_exps";
  } else {
    to = kNames.at(stem);
  }
  return "blk." + layer + "." + to + rest.substr(rest.rfind('.'));
}

/// The rows of each head as llama.cpp's converter orders them: 0, d/2, 1, d/2 + 1, ...
inline std::vector<float> permuted_rows(const TinyTensor& tensor, std::size_t heads) {
  const std::size_t rows = tensor.shape[0], cols = tensor.values.size() / rows, d = rows / heads;
  std::vector<float> out;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < d; ++i) {
      const std::size_t row = h * d + (i % 2) * (d / 2) + i / 2;
      for (std::size_t c = 0; c < cols; ++c) out.push_back(tensor.values[row * cols + c]);
    }
  }
  return out;
}

/// A tensor's type and bytes in a GGUF.
struct GgufTensor {
  std::uint32_t type = 0;
  std::string bytes;
};
using GgufEncoder =
    std::function<GgufTensor(const std::string& gguf_name, const std::vector<float>& values)>;

/// In the model's own type; vectors in F32, as converters keep them.
inline GgufEncoder gguf_floats(const std::string& dtype) {
  return [dtype](const std::string& name, const std::vector<float>& values) {
    const bool vector = name.find("norm") != std::string::npos || name.ends_with(".bias");
    const std::string type = vector ? "F32" : dtype;
    GgufTensor tensor{type == "F32" ? 0u : type == "F16" ? 1u : 30u, {}};
    for (const float value : values) append_value(tensor.bytes, type, value);
    return tensor;
  };
}

/// The model as GGUF, with the weights of tiny_tensors().
inline GgufParts gguf_parts(const TinyModel& model, const GgufEncoder& encode) {
  GgufParts parts;
  const std::string architecture = gguf_architecture(model);
  const auto add = [&](const std::string& key, std::size_t value) {
    parts.add_u32(architecture + "." + key, static_cast<std::uint32_t>(value));
  };
  parts.add_text("general.architecture", architecture);
  add("context_length", model.context);
  add("embedding_length", model.hidden);
  add("feed_forward_length", model.intermediate);
  add("block_count", model.layers);
  add("attention.head_count", model.heads);
  add("attention.head_count_kv", model.kv_heads);
  add("attention.key_length", model.head_dim);
  add("attention.value_length", model.head_dim);
  parts.add_f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  parts.add_u32("tokenizer.ggml.eos_token_id", 2);
  if (model.experts > 0) {
    add("expert_count", model.experts);
    add("expert_used_count", 2);
    add("expert_feed_forward_length", model.intermediate);
  }
  // Experts of one layer follow each other in the order of their names, and so of their numbers
  // (fewer than 10 of them).
  std::map<std::string, TinyTensor> merged;
  for (const auto& [name, tensor] : tiny_tensors(model)) {
    const bool q = name.find("q_proj") != std::string::npos;
    const bool k = name.find("k_proj") != std::string::npos;
    const auto values = architecture == "llama" && (q || k)
                            ? permuted_rows(tensor, q ? model.heads : model.kv_heads)
                            : tensor.values;
    TinyTensor& into = merged[gguf_name(name)];
    if (name.find(".experts.") == std::string::npos) {
      into = {tensor.shape, values};
      continue;
    }
    into.shape = {model.experts, tensor.shape[0], tensor.shape[1]};
    into.values.insert(into.values.end(), values.begin(), values.end());
  }
  for (const auto& [name, tensor] : merged) {
    const auto encoded = encode(name, tensor.values);
    parts.add_tensor(name, {tensor.shape.rbegin(), tensor.shape.rend()}, encoded.type,
                     encoded.bytes);
  }
  return parts;
}
inline GgufParts gguf_parts(const TinyModel& model) {
  return gguf_parts(model, gguf_floats(model.dtype));
}
inline std::string gguf_bytes(const TinyModel& model) { return gguf_parts(model).bytes(); }

/// Two shards and their index: every other tensor in the second.
inline void write_shards(const std::filesystem::path& folder, const TinyTensors& tensors,
                         const std::string& dtype) {
  std::array<TinyTensors, 2> shards;
  Json map = Json::object();
  std::size_t i = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t shard = i++ % 2;
    shards[shard].emplace(name, tensor);
    map[name] = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
  }
  for (std::size_t shard = 0; shard < 2; ++shard)
    write_bytes(folder / ("model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors"),
                safetensors_bytes(shards[shard], dtype));
  write_bytes(folder / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

}  // namespace verbatim::test
