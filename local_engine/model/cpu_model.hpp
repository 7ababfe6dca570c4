#pragma once
// The forward pass on the processor.

#include "local_engine/model/model.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

/// Keeps the host's weights. Thread-safety and promises are Model's.
class CpuModel final : public Model {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Model>> make(const HostModel& host,
                                                           kernels::Backend backend,
                                                           kernels::Profile profile);
  [[nodiscard]] std::string backend_name() const override;
  [[nodiscard]] Result<void> check_files() const override;
  void forward(std::span<ForwardRow> rows) override;
  void logits(std::size_t first, std::size_t count, float* out) override;

 private:
  CpuModel(const HostModel& host, kernels::Backend backend, kernels::Profile profile);
  void embed(std::span<const ForwardRow> rows);
  void attend(std::size_t layer, std::span<ForwardRow> rows);
  void normalize_heads(const LayerWeights& layer, std::size_t rows);
  void feed_forward(const FeedForward& weights, const float* x, std::size_t rows, float* out);
  void mix_experts(std::size_t layer, std::span<ForwardRow> pass, float* out);
  void normalize(const float* x, std::size_t rows, const std::vector<float>& weights, float* out);
  void multiply(const Linear& weights, const float* x, std::size_t rows, float* out);
  /// Digests what `stage` computed, for the rows that want it: row r is `width` values at x + r * stride.
  /// Reads alone. One comparison when no row of the pass is watched.
  void watch(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
             std::size_t width, std::size_t stride) {
    if (watched_) digest_rows(stage, rows, x, width, stride);
  }
  /// Rows of hidden_size values.
  void watch(const LayerStage& stage, std::span<const ForwardRow> rows, const kernels::Scratch& x) {
    watch(stage, rows, x.data(), config_.hidden_size, config_.hidden_size);
  }
  void watch_projections(std::size_t layer, std::span<const ForwardRow> rows, Operator q,
                         Operator k);
  void watch_gates(std::size_t layer, std::span<const ForwardRow> rows);
  /// body(r) for each row, shared out among threads: `operations` a row. A row writes what is its own alone.
  template <class Body>
  void each_row(std::size_t rows, std::size_t operations, const Body& body) {
    kernels::run_tasks(pool_for(rows * operations), rows, [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r) body(r);
    });
  }
  void add_branch(std::size_t rows);
  /// Marks the rows whose products left profile mma-hopper/1: what is not finite stays so down to the last residual.
  void mark_range(std::span<ForwardRow> rows);
  void rotate(std::size_t layer, std::size_t rows);

  std::shared_ptr<const ModelWeights> weights_;
  bool watches_files_;

  // Buffers of one pass, kept for the next. R: rows of the pass.
  kernels::Scratch x_;         // (R, hidden): the residual stream
  kernels::Scratch normed_;    // (R, hidden)
  kernels::Scratch qkv_;       // (R, (heads + 2 kv_heads) * head_dim)
  kernels::Scratch attended_;  // (R, heads * head_dim)
  kernels::Scratch branch_;    // (R, hidden)
  kernels::Scratch gate_up_;   // (R, 2 * intermediate)
  kernels::Scratch gated_;     // (R, intermediate)
};

}  // namespace verbatim::local_engine
