#pragma once
// The forward pass on the device: the operators of cpu_model.cpp and experts.cpp in the same order, each by its CUDA twin.

#include "kernels/attention/attention_cuda.hpp"
#include "local_engine/cuda/device_cuda.hpp"
#include "local_engine/cuda/weights_cuda.hpp"
#include "local_engine/model/model.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace verbatim::local_engine::cuda {

/// Weights, keys and values, and all buffers lie on the device. What comes back to the host: the last hidden states, the
/// logits, a flag a row, and what a row with digests wants digested. Members throw DeviceFailure.
class CudaModel final : public Model {
 public:
  /// As CudaBackend::load().
  [[nodiscard]] static Result<std::unique_ptr<Model>> make(const HostModel& host,
                                                           kernels::Backend host_backend,
                                                           kernels::Profile profile);
  [[nodiscard]] std::string backend_name() const override { return "cuda"; }
  void forward(std::span<ForwardRow> rows) override;
  void logits(std::size_t first, std::size_t count, float* out) override;

 private:
  CudaModel(const HostModel& host, kernels::Backend host_backend, kernels::Profile profile,
            std::unique_ptr<Device> device);
  void upload_rotations();
  void begin(std::span<ForwardRow> rows);
  void lay_out_attention(std::span<const ForwardRow> rows);
  void attend(std::size_t layer, std::span<const ForwardRow> rows);
  void normalize_heads(const DeviceLayer& layer, std::size_t rows);
  void rotate(std::size_t layer, std::size_t rows);
  void feed_forward(std::size_t layer, std::span<const ForwardRow> rows);
  void mix_experts(std::size_t layer, std::span<const ForwardRow> rows);
  void multiply_experts(const DeviceExperts& experts, std::size_t rows, std::size_t slots_per_x_row,
                        const float* x, float* y);
  void multiply(const DeviceLinear& weights, const float* x, std::size_t rows, float* out);
  /// Quantised rows are decoded, some at a time, into what the products read.
  void multiply_decoded(const kernels::cuda::Weights& weights,
                        const kernels::cuda::MatmulArgs& args);
  void multiply_decoded(const DeviceExperts::Part& part, kernels::cuda::GroupedMatmulArgs args);
  void embed(std::size_t rows);
  void normalize(const float* x, std::size_t rows, const float* weights, float* out);
  void gate(const float* both, std::size_t rows, std::size_t width, float* out);
  /// Of each row, whether its products left profile mma-hopper/1: what is not finite stays so down to the last residual.
  [[nodiscard]] std::vector<bool> not_finite(std::size_t rows);
  void keep_last_hidden(std::span<const ForwardRow> rows);

  /// Digests what `stage` computed, for the rows that want it: row r is `width` values at x + r * stride.
  void watch(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
             std::size_t width, std::size_t stride);
  /// Rows of hidden_size values.
  void watch(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x) {
    watch(stage, rows, x, config_.hidden_size, config_.hidden_size);
  }
  void watch_projections(std::size_t layer, std::span<const ForwardRow> rows, Operator q,
                         Operator k);
  void watch_gates(std::size_t layer, std::span<const ForwardRow> rows, std::size_t width);
  void watch_expert_gates(std::size_t layer, std::span<const ForwardRow> rows, std::size_t width);

  std::unique_ptr<Device> device_;  // goes after what lies on it
  DeviceWeights weights_;
  struct Angles {
    DeviceArray<float> cos, sin;  // (positions, pairs)
  };
  std::vector<Angles> angles_;  // as rotations_

  // Of one pass. R: its rows.
  DeviceArray<std::int32_t> tokens_;                  // (R)
  DeviceArray<std::size_t> device_positions_;         // (R)
  DeviceArray<std::uint8_t> range_;                   // (R): a bool each
  DeviceArray<kernels::KvPage> pages_;                // (sequences, layers, blocks of the sequence)
  DeviceArray<kernels::cuda::AttentionRow> queries_;  // (layers, R)
  DeviceArray<kernels::cuda::AttentionTile> tiles_;
  std::size_t tile_count_ = 0, pages_max_ = 0;
  DeviceArray<float> attention_scratch_;
  DeviceArray<float> x_, normed_, qkv_, attended_, branch_, gate_up_, gated_;  // as CpuModel's
  DeviceArray<float> chosen_rows_, last_on_device_, logits_;
  DeviceArray<float> router_logits_, expert_weights_, expert_branches_;
  DeviceArray<std::int32_t> experts_;  // (R, experts_per_token)
  DeviceArray<std::uint32_t> expert_first_, expert_slots_;
  DeviceArray<float> decoded_;           // quantised rows' values
  DeviceArray<const void*> decoded_of_;  // (experts)
  DeviceArray<std::byte> stats_, stats_scratch_;
  std::vector<float> watched_values_;  // the host's
};

}  // namespace verbatim::local_engine::cuda
