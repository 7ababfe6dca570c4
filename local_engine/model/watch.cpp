// Digests of what the layers compute: CpuModel::watch and its like.

#include "local_engine/model/cpu_model.hpp"

namespace verbatim::local_engine {

void CpuModel::watch_projections(std::size_t layer, std::span<const ForwardRow> rows, Operator q,
                                 Operator k) {
  const std::size_t q_width = config_.heads * config_.head_dim;
  const std::size_t kv_width = config_.kv_heads * config_.head_dim;
  const std::size_t stride = q_width + 2 * kv_width;
  watch({layer, q}, rows, qkv_.data(), q_width, stride);
  watch({layer, k}, rows, qkv_.data() + q_width, kv_width, stride);
}

void CpuModel::watch_gates(std::size_t layer, std::span<const ForwardRow> rows) {
  const std::size_t width = weights_->layers[layer].dense.down.cols();
  watch({layer, Operator::gate}, rows, gate_up_.data(), width, 2 * width);
  watch({layer, Operator::up}, rows, gate_up_.data() + width, width, 2 * width);
  watch({layer, Operator::gated}, rows, gated_.data(), width, width);
}

}  // namespace verbatim::local_engine
