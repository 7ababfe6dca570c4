#include "local_engine/cuda/weights_cuda.hpp"

#include <algorithm>
#include <string>

namespace verbatim::local_engine::cuda {
namespace {

Error no_kernels(const std::string& what) {
  return {Errc::unsupported, "there are no CUDA kernels for " + what, "backend",
          "use auto: the bits are the same"};
}

Result<void> check_linear(const Linear& linear) {
  for (const auto& part : linear.parts) {
    if (part.row_data() != nullptr) return no_kernels("quantised weights");
  }
  return {};
}

/// Of one kind of matrix, over all experts.
Result<void> check_experts(const std::vector<FeedForward>& experts, Linear FeedForward::*which) {
  const Linear& first = experts.front().*which;
  const auto same_type = [](const kernels::PackedWeights& a, const kernels::PackedWeights& b) {
    return a.dtype() == b.dtype() && a.rows() == b.rows();
  };
  for (const FeedForward& expert : experts) {
    const Linear& linear = expert.*which;
    if (const auto checked = check_linear(linear); !checked) return checked.error();
    if (!std::equal(linear.parts.begin(), linear.parts.end(), first.parts.begin(),
                    first.parts.end(), same_type) ||
        linear.bias.empty() != first.bias.empty())
      return no_kernels("experts whose weights are of different types");
  }
  return {};
}

}  // namespace

Result<void> check_weights(const ModelWeights& weights, kernels::Profile profile) {
  for (const Linear* linear : {&weights.embedding, &weights.lm_head}) {
    if (const auto checked = check_linear(*linear); !checked) return checked.error();
  }
  for (const LayerWeights& layer : weights.layers) {
    for (const Linear* linear :
         {&layer.qkv, &layer.output, &layer.dense.gate_up, &layer.dense.down, &layer.router}) {
      if (const auto checked = check_linear(*linear); !checked) return checked.error();
    }
    if (layer.experts.empty()) continue;
    if (profile == kernels::Profile::mma_hopper)
      return no_kernels("experts under profile " + std::string(kernels::name(profile)));
    for (const auto which : {&FeedForward::gate_up, &FeedForward::down}) {
      if (const auto checked = check_experts(layer.experts, which); !checked)
        return checked.error();
    }
  }
  return {};
}

DeviceWeights::DeviceWeights(Device& device, const ModelConfig& config, const ModelWeights& from)
    : device_(device) {
  embedding = upload(from.embedding);
  lm_head = config.tied ? embedding : upload(from.lm_head);
  for (const LayerWeights& layer : from.layers) layers.push_back(upload(layer));
  final_norm = upload(from.final_norm);
}

const void* DeviceWeights::upload(const void* from, std::size_t bytes) {
  memory_.emplace_back(bytes);
  device_.upload(memory_.back().get(), from, bytes);
  return memory_.back().get();
}

const float* DeviceWeights::upload(const std::vector<float>& from) {
  return from.empty() ? nullptr
                      : static_cast<const float*>(upload(from.data(), from.size() * sizeof(float)));
}

DeviceLinear DeviceWeights::upload(const Linear& from) {
  DeviceLinear to;
  for (const auto& part : from.parts)
    to.parts.push_back({upload(part.data(), part.bytes()), part.dtype(), part.rows(), part.cols()});
  to.bias = upload(from.bias);
  to.rows = from.rows();
  to.cols = from.cols();
  return to;
}

DeviceExperts DeviceWeights::upload(const std::vector<FeedForward>& experts,
                                    Linear FeedForward::*which) {
  std::vector<DeviceLinear> all;
  for (const FeedForward& expert : experts) all.push_back(upload(expert.*which));
  DeviceExperts to;
  for (std::size_t p = 0; p < all.front().parts.size(); ++p) {
    const kernels::cuda::Weights& like = all.front().parts[p];
    std::vector<const void*> weights;
    std::vector<const float*> biases;
    for (const DeviceLinear& each : all) {
      weights.push_back(each.parts[p].data);
      if (each.bias != nullptr) biases.push_back(each.bias + to.rows);
    }
    DeviceExperts::Part part{like.dtype, like.rows, like.cols, nullptr, nullptr};
    part.weights = static_cast<const void* const*>(
        upload(weights.data(), weights.size() * sizeof(weights[0])));
    if (!biases.empty())
      part.biases = static_cast<const float* const*>(
          upload(biases.data(), biases.size() * sizeof(biases[0])));
    to.parts.push_back(part);
    to.rows += like.rows;
  }
  return to;
}

DeviceLayer DeviceWeights::upload(const LayerWeights& from) {
  DeviceLayer to;
  to.attention_norm = upload(from.attention_norm);
  to.qkv = upload(from.qkv);
  to.q_norm = upload(from.q_norm);
  to.k_norm = upload(from.k_norm);
  to.output = upload(from.output);
  to.post_attention_norm = upload(from.post_attention_norm);
  to.feed_forward_norm = upload(from.feed_forward_norm);
  to.post_feed_forward_norm = upload(from.post_feed_forward_norm);
  if (from.experts.empty()) {
    to.gate_up = upload(from.dense.gate_up);
    to.down = upload(from.dense.down);
    return to;
  }
  to.router = upload(from.router);
  to.expert_gate_up = upload(from.experts, &FeedForward::gate_up);
  to.expert_down = upload(from.experts, &FeedForward::down);
  return to;
}

}  // namespace verbatim::local_engine::cuda
