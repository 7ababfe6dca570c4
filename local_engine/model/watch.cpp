// Digests of what the layers compute: Model::watch and its like.

#include "local_engine/model/model.hpp"

namespace verbatim::local_engine {

void Model::digest_rows(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
                        std::size_t width, std::size_t stride) {
  const auto wants = [&](const ForwardRow& row) {
    return row.digests != nullptr && row.digests->wants(stage.op);
  };
  // Rows in parallel; what they say is taken in their order, since several may be of one sequence.
  std::vector<Digest8> digests(rows.size());
  kernels::run_tasks(pool_for(rows.size() * width), rows.size(),
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t r = begin; r < end; ++r) {
                         if (wants(rows[r])) digests[r] = values_digest({x + r * stride, width});
                       }
                     });
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (wants(rows[r])) rows[r].digests->add(stage, rows[r].position, digests[r]);
  }
}

void Model::watch_projections(std::size_t layer, std::span<const ForwardRow> rows, Operator q,
                              Operator k) {
  const std::size_t q_width = config_.heads * config_.head_dim;
  const std::size_t kv_width = config_.kv_heads * config_.head_dim;
  const std::size_t stride = q_width + 2 * kv_width;
  watch({layer, q}, rows, qkv_.data(), q_width, stride);
  watch({layer, k}, rows, qkv_.data() + q_width, kv_width, stride);
}

void Model::watch_gates(std::size_t layer, std::span<const ForwardRow> rows) {
  const std::size_t width = weights_.layers[layer].dense.down.cols();
  watch({layer, Operator::gate}, rows, gate_up_.data(), width, 2 * width);
  watch({layer, Operator::up}, rows, gate_up_.data() + width, width, 2 * width);
  watch({layer, Operator::gated}, rows, gated_.data(), width, width);
}

}  // namespace verbatim::local_engine
