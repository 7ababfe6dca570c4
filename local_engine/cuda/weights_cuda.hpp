#pragma once
// A model's weights on the device, in the form in which the kernels read them: the host's, copied.

#include "kernels/matmul/matmul_cuda.hpp"
#include "local_engine/cuda/device_cuda.hpp"
#include "local_engine/model/weights.hpp"

#include <cstddef>
#include <vector>

namespace verbatim::local_engine::cuda {

/// As Linear, in the device's memory. Floats are packed; quantised rows lie one after the other as they are stored.
struct DeviceLinear {
  std::vector<kernels::cuda::Weights> parts;
  const float* bias = nullptr;  ///< (rows), or null
  std::size_t rows = 0, cols = 0;
};

/// The same matrix of every expert, whose parts have equal shapes and types.
struct DeviceExperts {
  struct Part {
    kernels::Dtype dtype = kernels::Dtype::f32;
    std::size_t rows = 0, cols = 0;
    const void* const* weights = nullptr;  ///< (experts)
    const float* const* biases = nullptr;  ///< (experts), or null
  };
  std::vector<Part> parts;
  std::size_t rows = 0;
};

struct DeviceLayer {
  const float* attention_norm = nullptr;
  DeviceLinear qkv;
  const float *q_norm = nullptr, *k_norm = nullptr;  ///< or null
  DeviceLinear output;
  const float* post_attention_norm = nullptr;  ///< or null
  const float* feed_forward_norm = nullptr;
  const float* post_feed_forward_norm = nullptr;  ///< or null
  DeviceLinear gate_up, down;                     ///< unless the layer has experts
  DeviceLinear router;
  DeviceExperts expert_gate_up, expert_down;
};

class DeviceWeights {
 public:
  /// Throws DeviceFailure. check_weights() was well.
  DeviceWeights(Device& device, const ModelConfig& config, const ModelWeights& from);

  DeviceLinear embedding, lm_head;  ///< one, when tied
  std::vector<DeviceLayer> layers;
  const float* final_norm = nullptr;

 private:
  [[nodiscard]] const void* upload(const void* from, std::size_t bytes);
  [[nodiscard]] const float* upload(const std::vector<float>& from);  ///< null when empty
  [[nodiscard]] kernels::cuda::Weights upload(const kernels::PackedWeights& from);
  [[nodiscard]] DeviceLinear upload(const Linear& from);
  [[nodiscard]] DeviceExperts upload(const std::vector<FeedForward>& experts,
                                     Linear FeedForward::*which);
  [[nodiscard]] DeviceLayer upload(const LayerWeights& from);

  Device& device_;
  std::vector<DeviceMemory> memory_;
};

/// `unsupported`: weights for which there is no kernel on the device.
[[nodiscard]] Result<void> check_weights(const ModelWeights& weights, kernels::Profile profile);

}  // namespace verbatim::local_engine::cuda
