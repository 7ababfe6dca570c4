#include "local_engine/cuda/weights_cuda.hpp"

#include <algorithm>
#include <string>

namespace verbatim::local_engine::cuda {
namespace {

constexpr std::size_t kStagedBytes = 16u << 20;

Error no_kernels(const std::string& what) {
  return {Errc::unsupported, "there are no CUDA kernels for " + what, "backend",
          "use auto: the bits are the same"};
}

/// Of one kind of matrix, over all experts.
Result<void> check_experts(const std::vector<FeedForward>& experts, Linear FeedForward::*which) {
  const Linear& first = experts.front().*which;
  const auto same_type = [](const kernels::PackedWeights& a, const kernels::PackedWeights& b) {
    return a.dtype() == b.dtype() && a.rows() == b.rows();
  };
  for (const FeedForward& expert : experts) {
    const Linear& linear = expert.*which;
    for (const auto& part : linear.parts) {
      if (kernels::is_quantised(part.dtype()) && !linear.bias.empty())
        return no_kernels("quantised experts with a bias");
    }
    if (!std::equal(linear.parts.begin(), linear.parts.end(), first.parts.begin(),
                    first.parts.end(), same_type) ||
        linear.bias.empty() != first.bias.empty())
      return no_kernels("experts whose weights are of different types");
  }
  return {};
}

}  // namespace

Result<void> check_weights(const ModelWeights& weights, kernels::Profile profile) {
  for (const LayerWeights& layer : weights.layers) {
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

kernels::cuda::Weights DeviceWeights::upload(const kernels::PackedWeights& from) {
  kernels::cuda::Weights to{nullptr, from.dtype(), from.rows(), from.cols()};
  if (from.row_data() == nullptr) {
    to.data = upload(from.data(), from.bytes());
    return to;
  }
  // The rows lie anywhere in the files: they go over some at a time.
  const std::size_t each = kernels::row_bytes(from.dtype(), from.cols());
  const std::size_t together = std::max<std::size_t>(1, kStagedBytes / each);
  memory_.emplace_back(from.rows() * each);
  std::vector<std::byte> staged;
  for (std::size_t first = 0; first < from.rows(); first += together) {
    const std::size_t end = std::min(first + together, from.rows());
    staged.clear();
    for (std::size_t n = first; n < end; ++n)
      staged.insert(staged.end(), from.row_data()[n], from.row_data()[n] + each);
    device_.upload(memory_.back().get() + first * each, staged.data(), staged.size());
  }
  to.data = memory_.back().get();
  return to;
}

DeviceLinear DeviceWeights::upload(const Linear& from) {
  DeviceLinear to;
  for (const auto& part : from.parts) to.parts.push_back(upload(part));
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
