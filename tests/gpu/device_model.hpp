#pragma once
// A whole forward pass with the GPU's kernels, for tests: the order of operators of local_engine/model/model.cpp and
// experts.cpp, one sequence, everything in the device's memory.

#include "kernels/attention/attention_cuda.hpp"
#include "kernels/elementwise/elementwise_cuda.hpp"
#include "kernels/experts/experts_cuda.hpp"
#include "kernels/gate/gate_cuda.hpp"
#include "kernels/matmul/matmul_cuda.hpp"
#include "kernels/rmsnorm/rmsnorm_cuda.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/rope/rope_cuda.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/weights.hpp"
#include "tests/gpu/device.hpp"

#include <cmath>
#include <cstring>
#include <vector>

namespace verbatim::kernels::test {

class DeviceModel {
 public:
  using Config = local_engine::ModelConfig;
  using TokenId = local_engine::TokenId;

  /// Room for `positions` of one sequence. Kinds of rope: plain, linear, llama3.
  DeviceModel(const Config& config, const local_engine::ModelWeights& weights,
              std::size_t positions)
      : config_(config), pages_(config.layers) {
    embedding_ = upload(weights.embedding);
    lm_head_ = config.tied ? embedding_ : upload(weights.lm_head);
    final_norm_ = memory_.upload(weights.final_norm);
    for (const auto& from : weights.layers) layers_.push_back(layer(from));
    const RopeTable table = RopeTable::make(inverse_frequencies(), positions).value();
    cos_ = memory_.upload(table.cos(0), positions * table.pairs());
    sin_ = memory_.upload(table.sin(0), positions * table.pairs());
    for (auto& pages : pages_) {
      const std::size_t size = kv_page_floats(config.kv_heads, config.head_dim);
      std::vector<KvPage> all;
      for (std::size_t p = 0; p < (positions + kBlock - 1) / kBlock; ++p)
        all.push_back({memory_.fresh<float>(size), memory_.fresh<float>(size)});
      pages = memory_.upload(all);
    }
  }

  /// Feeds `ids` behind what was fed before; the logits of each, (ids, vocab), valid until the next call.
  const float* forward(const std::vector<TokenId>& ids) {
    pass_.free();
    const std::size_t rows = ids.size(), width = config_.hidden_size;
    positions_.clear();
    for (std::size_t i = 0; i < rows; ++i) positions_.push_back(fed_ + i);
    fed_ += rows;
    device_positions_ = pass_.upload(positions_);
    range_ = pass_.upload(std::vector<std::uint8_t>(rows));
    float* x = pass_.fresh<float>(rows * width);
    float* normed = pass_.fresh<float>(rows * width);
    float* branch = pass_.fresh<float>(rows * width);
    cuda::gather_rows(embedding_, pass_.upload(ids), rows, 1, x, nullptr);
    for (std::size_t i = 0; i < config_.layers; ++i) {
      normalize(x, rows, 1, width, width, layers_[i].attention_norm, normed);
      attend(i, normed, rows, branch);
      cuda::add_in_place(x, branch, rows * width, nullptr);
      normalize(x, rows, 1, width, width, layers_[i].feed_forward_norm, normed);
      if (config_.moe_layers[i]) {
        mix_experts(layers_[i], normed, rows, branch);
      } else {
        feed_forward(layers_[i], normed, rows, branch);
      }
      cuda::add_in_place(x, branch, rows * width, nullptr);
    }
    normalize(x, rows, 1, width, width, final_norm_, normed);
    float* logits = pass_.fresh<float>(rows * config_.vocab_size);
    multiply(lm_head_, normed, rows, nullptr, logits);
    return logits;
  }
  /// Of the last pass.
  [[nodiscard]] bool out_of_range() {
    const auto flags = pass_.download(range_, positions_.size());
    return std::count(flags.begin(), flags.end(), 0) != std::ssize(flags);
  }

 private:
  struct Layer {
    const float *attention_norm, *feed_forward_norm, *q_norm, *k_norm;
    cuda::Weights qkv, output, gate_up, down, router;
    const float *qkv_bias, *output_bias, *gate_up_bias, *down_bias;
    const void* const* expert_gate_up;  // (experts)
    const void* const* expert_down;
    Dtype expert_dtype;
  };

  /// Weights of one float type.
  cuda::Weights upload(const local_engine::Linear& linear) {
    EXPECT_EQ(linear.parts.size(), 1u);
    const PackedWeights& w = linear.parts[0];
    return {memory_.upload(static_cast<const std::byte*>(w.data()), w.bytes()), w.dtype(), w.rows(),
            w.cols()};
  }
  const float* upload_or_null(const std::vector<float>& values) {
    return values.empty() ? nullptr : memory_.upload(values);
  }

  Layer layer(const local_engine::LayerWeights& from) {
    Layer to{};
    to.attention_norm = memory_.upload(from.attention_norm);
    to.feed_forward_norm = memory_.upload(from.feed_forward_norm);
    to.q_norm = upload_or_null(from.q_norm);
    to.k_norm = upload_or_null(from.k_norm);
    to.qkv = upload(from.qkv);
    to.output = upload(from.output);
    to.qkv_bias = upload_or_null(from.qkv.bias);
    to.output_bias = upload_or_null(from.output.bias);
    if (from.experts.empty()) {
      to.gate_up = upload(from.dense.gate_up);
      to.down = upload(from.dense.down);
      to.gate_up_bias = upload_or_null(from.dense.gate_up.bias);
      to.down_bias = upload_or_null(from.dense.down.bias);
      return to;
    }
    to.router = upload(from.router);
    std::vector<const void*> gate_up, down;
    for (const auto& expert : from.experts) {
      gate_up.push_back(upload(expert.gate_up).data);
      down.push_back(upload(expert.down).data);
    }
    to.expert_dtype = from.experts[0].down.parts[0].dtype();
    to.expert_gate_up = memory_.upload(gate_up);
    to.expert_down = memory_.upload(down);
    return to;
  }

  std::vector<float> inverse_frequencies() const {
    const auto& rope = config_.rope;
    auto inverse = rope_inverse_frequencies(rope.theta, config_.head_dim).value();
    if (rope.kind == local_engine::RopeKind::linear) return rope_scale_linear(inverse, rope.factor);
    if (rope.kind == local_engine::RopeKind::llama3)
      return rope_scale_llama3(inverse, {rope.factor, rope.low_freq_factor, rope.high_freq_factor,
                                         rope.original_positions});
    EXPECT_EQ(rope.kind, local_engine::RopeKind::plain);
    return inverse;
  }

  void multiply(const cuda::Weights& w, const float* x, std::size_t rows, const float* bias,
                float* y) {
    cuda::matmul(w, {x, rows, w.cols, bias, y, w.rows}, nullptr);
  }
  void normalize(const float* x, std::size_t rows, std::size_t parts, std::size_t cols,
                 std::size_t stride, const float* w, float* y) {
    cuda::rmsnorm({rows, parts, cols, static_cast<float>(config_.rms_norm_eps), false, x, stride, w,
                   y, stride},
                  nullptr);
  }

  void attend(std::size_t index, const float* normed, std::size_t rows, float* branch) {
    const Layer& layer = layers_[index];
    const std::size_t dim = config_.head_dim, q_width = config_.heads * dim;
    const std::size_t kv_width = config_.kv_heads * dim, width = q_width + 2 * kv_width;
    float* qkv = pass_.fresh<float>(rows * width);
    multiply(layer.qkv, normed, rows, layer.qkv_bias, qkv);
    float* k = qkv + q_width;
    EXPECT_NE(config_.qk_norm, local_engine::QkNorm::all_heads);
    if (config_.qk_norm == local_engine::QkNorm::each_head) {
      normalize(qkv, rows, config_.heads, dim, width, layer.q_norm, qkv);
      normalize(k, rows, config_.kv_heads, dim, width, layer.k_norm, k);
    }
    for (const auto& [heads, at] : {std::pair{config_.heads, qkv}, std::pair{config_.kv_heads, k}})
      cuda::rope_rotate(
          {rows, heads, dim, dim / 2, false, device_positions_, cos_, sin_, at, width}, nullptr);

    float* attended = pass_.fresh<float>(rows * q_width);
    cuda::AttentionArgs args;
    args.shape.heads = config_.heads;
    args.shape.kv_heads = config_.kv_heads;
    args.shape.head_dim = dim;
    args.shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
    args.shape.window = config_.windows[index];
    std::vector<cuda::AttentionRow> queries;
    for (std::size_t r = 0; r < rows; ++r)
      queries.push_back({qkv + r * width, attended + r * q_width, positions_[r], pages_[index]});
    const auto tiles = cuda::attention_tiles(args.shape, queries);
    args.row_count = rows;
    args.rows = pass_.upload(queries);
    args.tile_count = tiles.size();
    args.tiles = pass_.upload(tiles);
    args.pages_max = positions_.back() / kBlock + 1;
    if (rows < 8) args.scratch = pass_.fresh<float>(cuda::attention_scratch_floats(args));
    args.range = reinterpret_cast<bool*>(range_);
    cuda::kv_store(args.shape, args.rows, rows, k, k + kv_width, width, nullptr);
    cuda::attention(args, nullptr);
    multiply(layer.output, attended, rows, layer.output_bias, branch);
  }

  void feed_forward(const Layer& layer, const float* normed, std::size_t rows, float* branch) {
    const std::size_t width = layer.down.cols;
    float* both = pass_.fresh<float>(rows * 2 * width);
    float* gated = pass_.fresh<float>(rows * width);
    multiply(layer.gate_up, normed, rows, layer.gate_up_bias, both);
    cuda::swiglu({rows, width, both, both + width, 2 * width, gated, width}, nullptr);
    multiply(layer.down, gated, rows, layer.down_bias, branch);
  }

  void mix_experts(const Layer& layer, const float* normed, std::size_t rows, float* branch) {
    const auto& moe = config_.moe;
    const std::size_t slots = rows * moe.experts_per_token, width = moe.intermediate_size;
    float* logits = pass_.fresh<float>(rows * moe.experts);
    multiply(layer.router, normed, rows, nullptr, logits);
    auto* chosen = pass_.fresh<std::int32_t>(slots);
    float* weights = pass_.fresh<float>(slots);
    cuda::route({rows, moe.experts, moe.experts_per_token, moe.renormalize, logits, chosen, weights,
                 reinterpret_cast<bool*>(range_)},
                nullptr);
    auto* first = pass_.fresh<std::uint32_t>(moe.experts + 1);
    auto* grouped = pass_.fresh<std::uint32_t>(slots);
    cuda::group_by_expert(chosen, slots, moe.experts, first, grouped, nullptr);
    float* both = pass_.fresh<float>(slots * 2 * width);
    float* gated = pass_.fresh<float>(slots * width);
    float* branches = pass_.fresh<float>(slots * config_.hidden_size);
    cuda::GroupedMatmulArgs args;
    args.dtype = layer.expert_dtype;
    args.experts = moe.experts;
    args.first = first;
    args.slots = grouped;
    args.slots_of_one_max = rows;
    args.rows = 2 * width;
    args.cols = config_.hidden_size;
    args.weights = layer.expert_gate_up;
    args.slots_per_x_row = moe.experts_per_token;
    args.x = normed;
    args.x_stride = config_.hidden_size;
    args.y = both;
    args.y_stride = 2 * width;
    cuda::grouped_matmul(args, nullptr);
    cuda::swiglu({slots, width, both, both + width, 2 * width, gated, width}, nullptr);
    args.rows = config_.hidden_size;
    args.cols = width;
    args.weights = layer.expert_down;
    args.slots_per_x_row = 1;
    args.x = gated;
    args.x_stride = width;
    args.y = branches;
    args.y_stride = config_.hidden_size;
    cuda::grouped_matmul(args, nullptr);
    cuda::mix({rows, moe.experts_per_token, config_.hidden_size, chosen, weights, branches, branch},
              nullptr);
  }

  Config config_;
  DeviceMemory memory_, pass_;
  cuda::Weights embedding_, lm_head_;
  const float* final_norm_ = nullptr;
  std::vector<Layer> layers_;
  const float *cos_ = nullptr, *sin_ = nullptr;
  std::vector<const KvPage*> pages_;  // (layers)
  std::size_t fed_ = 0;
  std::vector<std::size_t> positions_;  // of the pass
  const std::size_t* device_positions_ = nullptr;
  std::uint8_t* range_ = nullptr;
};

}  // namespace verbatim::kernels::test
