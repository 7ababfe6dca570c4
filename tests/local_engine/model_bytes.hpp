#pragma once
// Bytes of GGUF files and safetensors shards, for tests that write them well and for tests that
// break them.

#include "tests/support/tiny_model.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
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

/// The name in a GGUF of a tensor of a Llama in Hugging Face's spelling.
inline std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  const auto layer_end = name.find('.', std::string("model.layers.").size());
  const std::string layer = name.substr(13, layer_end - 13);
  const std::string rest = name.substr(layer_end + 1);
  constexpr std::array<std::pair<const char*, const char*>, 9> kNames{
      {{"input_layernorm", "attn_norm"},
       {"post_attention_layernorm", "ffn_norm"},
       {"self_attn.q_proj", "attn_q"},
       {"self_attn.k_proj", "attn_k"},
       {"self_attn.v_proj", "attn_v"},
       {"self_attn.o_proj", "attn_output"},
       {"mlp.gate_proj", "ffn_gate"},
       {"mlp.up_proj", "ffn_up"},
       {"mlp.down_proj", "ffn_down"}}};
  const std::string stem = rest.substr(0, rest.rfind('.'));
  for (const auto& [from, to] : kNames) {
    if (stem == from) return "blk." + layer + "." + to + rest.substr(rest.rfind('.'));
  }
  return name;
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

/// A Llama as GGUF, with the weights of tiny_tensors().
inline GgufParts gguf_parts(const TinyModel& model) {
  GgufParts parts;
  parts.add_text("general.architecture", "llama");
  parts.add_u32("llama.context_length", static_cast<std::uint32_t>(model.context));
  parts.add_u32("llama.embedding_length", static_cast<std::uint32_t>(model.hidden));
  parts.add_u32("llama.feed_forward_length", static_cast<std::uint32_t>(model.intermediate));
  parts.add_u32("llama.block_count", static_cast<std::uint32_t>(model.layers));
  parts.add_u32("llama.attention.head_count", static_cast<std::uint32_t>(model.heads));
  parts.add_u32("llama.attention.head_count_kv", static_cast<std::uint32_t>(model.kv_heads));
  parts.add_u32("llama.attention.key_length", static_cast<std::uint32_t>(model.head_dim));
  parts.add_u32("llama.attention.value_length", static_cast<std::uint32_t>(model.head_dim));
  parts.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  parts.add_u32("tokenizer.ggml.eos_token_id", 2);
  for (const auto& [name, tensor] : tiny_tensors(model)) {
    const bool q = name.find("q_proj") != std::string::npos;
    const bool k = name.find("k_proj") != std::string::npos;
    const bool vector = tensor.shape.size() == 1;
    // Converters keep vectors in f32.
    const std::string dtype = vector ? "F32" : model.dtype;
    const auto values =
        q || k ? permuted_rows(tensor, q ? model.heads : model.kv_heads) : tensor.values;
    std::string bytes;
    for (const float value : values) append_value(bytes, dtype, value);
    const std::uint32_t type = dtype == "F32" ? 0 : dtype == "F16" ? 1 : 30;
    std::vector<std::uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
    parts.add_tensor(gguf_name(name), dims, type, bytes);
  }
  return parts;
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
