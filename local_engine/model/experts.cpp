// Mixture of experts: CpuModel::mix_experts. Numerics section 6.

#include "kernels/elementary/elementary.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/logits/logits.hpp"
#include "local_engine/model/cpu_model.hpp"

#include <algorithm>
#include <cstring>

namespace verbatim::local_engine {
namespace {

/// e^(x - max) / sum over `values` in order, the sum in blocks of 256 (numerics section 2).
std::vector<float> softmax(const std::vector<float>& values) {
  float max = values.front();
  for (const float value : values) max = value > max ? value : max;
  std::vector<float> out;
  for (const float value : values) out.push_back(kernels::exp_f32(value - max));
  const float sum = kernels::sum(out.data(), out.size());
  for (float& value : out) value = value / sum;
  return out;
}

struct Routing {
  std::vector<std::int32_t> experts;  // in rank order
  std::vector<float> weights;
};

Routing route(std::span<const float> logits, const MoeConfig& moe) {
  Routing routing;
  routing.experts = kernels::top_ids(logits, moe.experts_per_token);
  std::vector<float> chosen;
  if (moe.renormalize) {
    for (const auto expert : routing.experts)
      chosen.push_back(logits[static_cast<std::size_t>(expert)]);
    routing.weights = softmax(chosen);
    return routing;
  }
  const auto all = softmax({logits.begin(), logits.end()});
  for (const auto expert : routing.experts)
    routing.weights.push_back(all[static_cast<std::size_t>(expert)]);
  return routing;
}

/// What the experts computed on their way, for digests: (R, rank, width) each.
struct Gates {
  Gates(std::size_t slots, std::size_t values)
      : width(values), gate(slots * values), up(gate.size()), gated(gate.size()) {}
  /// Of one expert's rows: `gate_up` is (slots, 2 * width), `product` (slots, width).
  void keep(const std::vector<std::size_t>& slots, const float* gate_up, const float* product) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const std::size_t to = slots[i] * width;
      std::copy_n(gate_up + 2 * i * width, width, gate.begin() + static_cast<std::ptrdiff_t>(to));
      std::copy_n(gate_up + (2 * i + 1) * width, width,
                  up.begin() + static_cast<std::ptrdiff_t>(to));
      std::copy_n(product + i * width, width, gated.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  std::size_t width;
  std::vector<float> gate, up, gated;
};

}  // namespace

void CpuModel::mix_experts(std::size_t index, std::span<ForwardRow> pass, float* out) {
  const LayerWeights& layer = weights_->layers[index];
  const std::size_t rows = pass.size();
  const std::size_t width = config_.hidden_size, count = config_.moe.experts;
  std::vector<float> logits(rows * count);
  multiply(layer.router, normed_.data(), rows, logits.data());
  watch({index, Operator::router}, pass, logits.data(), count, count);
  std::vector<Routing> routings;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::span<const float> row(logits.data() + r * count, count);
    // What is not finite has no ranks: the row's request ends, and no expert computes for it.
    const bool finite = kernels::all_finite(host_backend(), row);
    if (!finite) pass[r].range = true;
    routings.push_back(finite ? route(row, config_.moe) : Routing{});
  }

  // Each expert computes the rows that chose it, together; a row's own result does not depend on
  // the others.
  std::vector<float> branches(rows * config_.moe.experts_per_token * width);  // (R, rank, hidden)
  std::vector<float> gathered, results;
  Gates gates(watched_ ? rows * config_.moe.experts_per_token : 0, config_.moe.intermediate_size);
  for (std::size_t expert = 0; expert < count; ++expert) {
    std::vector<std::size_t> slots;  // row * experts_per_token + rank
    gathered.clear();
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t rank = 0; rank < routings[r].experts.size(); ++rank) {
        if (static_cast<std::size_t>(routings[r].experts[rank]) != expert) continue;
        slots.push_back(r * config_.moe.experts_per_token + rank);
        gathered.insert(gathered.end(), normed_.data() + r * width,
                        normed_.data() + (r + 1) * width);
      }
    }
    if (slots.empty()) continue;
    results.resize(slots.size() * width);
    feed_forward(layer.experts[expert], gathered.data(), slots.size(), results.data());
    for (std::size_t i = 0; i < slots.size(); ++i)
      std::memcpy(branches.data() + slots[i] * width, results.data() + i * width,
                  width * sizeof(float));
    if (watched_) gates.keep(slots, gate_up_.data(), gated_.data());
  }
  const std::size_t ranks = config_.moe.experts_per_token;
  watch({index, Operator::gate}, pass, gates.gate.data(), ranks * gates.width, ranks * gates.width);
  watch({index, Operator::up}, pass, gates.up.data(), ranks * gates.width, ranks * gates.width);
  watch({index, Operator::gated}, pass, gates.gated.data(), ranks * gates.width,
        ranks * gates.width);
  watch({index, Operator::down}, pass, branches.data(), ranks * width, ranks * width);

  // acc = fma(p_r, y_r, acc), in rank order from +0.
  std::fill_n(out, rows * width, 0.0f);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t rank = 0; rank < routings[r].weights.size(); ++rank)
      kernels::fma_in_place(host_backend(), out + r * width, routings[r].weights[rank],
                            branches.data() + (r * config_.moe.experts_per_token + rank) * width,
                            width);
  }
  watch({index, Operator::mixture}, pass, out, width, width);
}

}  // namespace verbatim::local_engine
