#pragma once
// Small random models, written to disk: what the engine's tests run on when there is no shared
// data.
//
// The same specification always gives the same bytes, on every machine.

#include "schema/canonical_json.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::test {

/// What to write. `config` is merged over the config.json that follows from the rest.
struct TinyModel {
  std::string architecture = "LlamaForCausalLM";
  std::size_t hidden = 32, intermediate = 48, layers = 2;
  std::size_t heads = 4, kv_heads = 2, head_dim = 8;
  std::size_t vocab = 96, context = 1024;
  std::size_t experts = 0;  ///< Mixtral, Qwen3-MoE, OLMoE
  bool tied = false;
  bool qkv_bias = false, output_bias = false, mlp_bias = false, qk_norm = false;
  std::string dtype = "F32";  ///< F32, BF16, F16
  std::uint64_t seed = 1;
  Json config = Json::object();
};

struct TinyTensor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;  ///< already rounded to the model's dtype
};
using TinyTensors = std::map<std::string, TinyTensor>;

/// SplitMix64: the generator of every test model.
class TinyRandom {
 public:
  explicit TinyRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// 0 to bound - 1.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  /// -1 to 1, 24 bits.
  float symmetric() {
    return static_cast<float>(static_cast<std::int64_t>(next() >> 40) - (1 << 23)) * 0x1p-23f;
  }

 private:
  std::uint64_t state_;
};

/// bf16 and f16 by cutting low bits, f16 only in its normal range: enough for numbers near 1, and
/// exact afterwards. The mask is chosen, not the result: g++ 12.2 at -O1 and above gives `v` for
/// `c ? bit_cast<float>(bits_of_v & 0xffff0000u) : v`. Seen with this mask alone, not with clang.
inline float round_to(const std::string& dtype, float value) {
  std::uint32_t mask = 0xffffffffu;
  if (dtype == "BF16") mask = 0xffff0000u;
  if (dtype == "F16") mask = std::abs(value) < 0x1p-14f ? 0 : 0xffffe000u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & mask);
}

/// Little-endian bytes of a value that round_to() left as it is.
inline void append_value(std::string& out, const std::string& dtype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t stored = bits;
  int bytes = 4;
  if (dtype == "BF16") {
    stored = bits >> 16;
    bytes = 2;
  } else if (dtype == "F16") {
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    stored = value == 0 ? sign
                        : sign | ((((bits >> 23) & 0xffu) - 112u) << 10) | ((bits >> 13) & 0x3ffu);
    bytes = 2;
  }
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((stored >> (8 * i)) & 0xffu);
}

inline TinyTensors tiny_tensors(const TinyModel& model) {
  TinyTensors all;
  TinyRandom random(model.seed);
  // Matrices get values of about 1.5 / sqrt(columns), so that activations neither vanish nor
  // explode.
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape, float center) {
    TinyTensor tensor{std::move(shape), {}};
    std::uint64_t count = 1;
    for (const auto size : tensor.shape) count *= size;
    const float scale =
        tensor.shape.size() == 1 ? 0.25f : 2.5f / std::sqrt(static_cast<float>(tensor.shape[1]));
    for (std::uint64_t i = 0; i < count; ++i)
      tensor.values.push_back(round_to(model.dtype, center + scale * random.symmetric()));
    all.emplace(name, std::move(tensor));
  };
  const bool gemma = model.architecture.starts_with("Gemma");
  const bool post_norms = gemma && model.architecture != "GemmaForCausalLM";
  const bool fused = model.architecture == "Phi3ForCausalLM";
  const bool whole_norm = model.architecture == "OlmoeForCausalLM";
  const float norm = gemma ? 0 : 1;  // Gemma's files hold what is added to 1
  const auto h = model.hidden, m = model.intermediate;
  const auto q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  add("model.embed_tokens.weight", {model.vocab, h}, 0);
  for (std::size_t i = 0; i < model.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {h}, norm);
    if (fused) {
      add(layer + "self_attn.qkv_proj.weight", {q + 2 * kv, h}, 0);
    } else {
      add(layer + "self_attn.q_proj.weight", {q, h}, 0);
      add(layer + "self_attn.k_proj.weight", {kv, h}, 0);
      add(layer + "self_attn.v_proj.weight", {kv, h}, 0);
    }
    add(layer + "self_attn.o_proj.weight", {h, q}, 0);
    if (model.qkv_bias) {
      add(layer + "self_attn.q_proj.bias", {q}, 0);
      add(layer + "self_attn.k_proj.bias", {kv}, 0);
      add(layer + "self_attn.v_proj.bias", {kv}, 0);
    }
    if (model.output_bias) add(layer + "self_attn.o_proj.bias", {h}, 0);
    if (model.qk_norm) {
      add(layer + "self_attn.q_norm.weight", {whole_norm ? q : model.head_dim}, norm);
      add(layer + "self_attn.k_norm.weight", {whole_norm ? kv : model.head_dim}, norm);
    }
    add(layer + "post_attention_layernorm.weight", {h}, norm);
    if (post_norms) {
      add(layer + "pre_feedforward_layernorm.weight", {h}, norm);
      add(layer + "post_feedforward_layernorm.weight", {h}, norm);
    }
    if (model.experts > 0) {
      const bool mixtral = model.architecture == "MixtralForCausalLM";
      const std::string mlp = layer + (mixtral ? "block_sparse_moe." : "mlp.");
      add(mlp + "gate.weight", {model.experts, h}, 0);
      for (std::size_t e = 0; e < model.experts; ++e) {
        const std::string expert = mlp + "experts." + std::to_string(e) + ".";
        add(expert + (mixtral ? "w1.weight" : "gate_proj.weight"), {m, h}, 0);
        add(expert + (mixtral ? "w3.weight" : "up_proj.weight"), {m, h}, 0);
        add(expert + (mixtral ? "w2.weight" : "down_proj.weight"), {h, m}, 0);
      }
      continue;
    }
    if (fused) {
      add(layer + "mlp.gate_up_proj.weight", {2 * m, h}, 0);
      add(layer + "mlp.down_proj.weight", {h, m}, 0);
      continue;
    }
    for (const std::string part : {"gate", "up", "down"}) {
      const bool down = part == "down";
      add(layer + "mlp." + part + "_proj.weight", {down ? h : m, down ? m : h}, 0);
      if (model.mlp_bias) add(layer + "mlp." + part + "_proj.bias", {down ? h : m}, 0);
    }
  }
  add("model.norm.weight", {h}, norm);
  if (!model.tied) add("lm_head.weight", {model.vocab, h}, 0);
  return all;
}

inline Json tiny_config(const TinyModel& model) {
  Json config = {{"architectures", {model.architecture}},
                 {"hidden_size", model.hidden},
                 {"intermediate_size", model.intermediate},
                 {"num_hidden_layers", model.layers},
                 {"num_attention_heads", model.heads},
                 {"num_key_value_heads", model.kv_heads},
                 {"head_dim", model.head_dim},
                 {"vocab_size", model.vocab},
                 {"max_position_embeddings", model.context},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 10000.0},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", model.tied},
                 {"eos_token_id", 2}};
  if (model.architecture == "LlamaForCausalLM" || model.architecture.starts_with("Qwen3"))
    config["attention_bias"] = model.output_bias;
  if (model.mlp_bias) config["mlp_bias"] = true;
  if (model.experts > 0) {
    config[model.architecture == "MixtralForCausalLM" ? "num_local_experts" : "num_experts"] =
        model.experts;
    config["num_experts_per_tok"] = 2;
    config["moe_intermediate_size"] = model.intermediate;
  }
  config.update(model.config);
  return config;
}

/// The bytes of a safetensors file, tensors in order of their names.
inline std::string safetensors_bytes(const TinyTensors& tensors, const std::string& dtype) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    for (const float value : tensor.values) append_value(data, dtype, value);
    header[name] = {
        {"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>((text.size() >> (8 * i)) & 0xffu);
  return out + text + data;
}

inline void write_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A byte-level tokenizer.json of `vocab` ids without merges: 0 <unk>, 1 <s>, 2 </s>, then
/// printable ASCII from '!'. Ids beyond are named "<n>".
inline std::string tiny_tokenizer(std::size_t vocab) {
  Json names = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (std::size_t id = 3; id < vocab; ++id) {
    const auto c = static_cast<char>('!' + (id - 3));
    names[id - 3 < 94 ? std::string(1, c) : "<" + std::to_string(id) + ">"] = id;
  }
  const auto special = [](int id, const char* name) {
    return Json{{"id", id},        {"content", name},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", {special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")}},
              {"normalizer", nullptr},
              {"pre_tokenizer",
               {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", false}}},
              {"post_processor", nullptr},
              {"decoder",
               {{"type", "ByteLevel"},
                {"add_prefix_space", true},
                {"trim_offsets", true},
                {"use_regex", true}}},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", "<unk>"},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"vocab", names},
                {"merges", Json::array()}}}}
      .dump();
}

/// Writes config.json and model.safetensors into `folder`, which exists.
inline void write_tiny_model(const std::filesystem::path& folder, const TinyModel& model) {
  write_bytes(folder / "config.json", tiny_config(model).dump(1));
  write_bytes(folder / "model.safetensors", safetensors_bytes(tiny_tensors(model), model.dtype));
}

}  // namespace verbatim::test
