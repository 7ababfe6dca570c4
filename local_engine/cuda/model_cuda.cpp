#include "local_engine/cuda/model_cuda.hpp"

#include "kernels/elementwise/elementwise_cuda.hpp"
#include "kernels/experts/experts_cuda.hpp"
#include "kernels/gate/gate_cuda.hpp"
#include "kernels/logits/logits_cuda.hpp"
#include "kernels/mma/mma_cuda.hpp"
#include "kernels/quantised/quantised_cuda.hpp"
#include "kernels/rmsnorm/rmsnorm_cuda.hpp"
#include "kernels/rope/rope_cuda.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace verbatim::local_engine::cuda {
namespace {

// So few rows do not fill the device with one block of threads a tile: then each page has its own.
constexpr std::size_t kSplitRowsMax = 8;
constexpr std::size_t kUnsplitHeadDimMax = 256;
constexpr std::size_t kStatRowsMax = 65'535;  // of logit_stats()
// Of quantised weights at a time: 16 MiB, which stay in the cache of a large card from their decoding to their use.
constexpr std::size_t kDecodedFloatsMax = 4u << 20;

/// Whole panels of a matrix with these columns, of so many experts.
std::size_t decoded_rows(std::size_t cols, std::size_t experts) {
  const std::size_t panel = kernels::kPanelRows * cols * experts;
  return std::max<std::size_t>(1, kDecodedFloatsMax / panel) * kernels::kPanelRows;
}

KvPool::Allocate device_memory() {
  return [](std::size_t bytes) {
    const auto memory = std::make_shared<DeviceMemory>(bytes);
    return std::shared_ptr<std::byte>(memory, memory->get());
  };
}

}  // namespace

Result<std::unique_ptr<Model>> CudaModel::make(const HostModel& host, kernels::Backend host_backend,
                                               kernels::Profile profile) {
  if (const auto known = check_weights(*host.weights, profile); !known) return known.error();
  auto device = Device::open();
  if (!device) return device.error();
  if (profile == kernels::Profile::mma_hopper &&
      !kernels::cuda::computes_mma_hopper((*device)->facts().major))
    return Error{
        Errc::unsupported,
        "the tensor cores of " + (*device)->facts().text() + " do not compute profile mma-hopper/1",
        "profile", "use f32-k256/1, or backend auto"};
  try {
    std::unique_ptr<CudaModel> model(
        new CudaModel(host, host_backend, profile, std::move(*device)));
    if (const auto made = model->make_rotations(host.path); !made) return made.error();
    model->upload_rotations();
    return std::unique_ptr<Model>(std::move(model));
  } catch (const DeviceFailure& failure) {
    return failure.error();
  }
}

CudaModel::CudaModel(const HostModel& host, kernels::Backend host_backend, kernels::Profile profile,
                     std::unique_ptr<Device> device)
    : Model(host, host_backend, profile, device_memory()),
      device_(std::move(device)),
      weights_(*device_, config_, *host.weights) {}

void CudaModel::upload_rotations() {
  angles_.resize(rotations_.size());
  for (std::size_t i = 0; i < rotations_.size(); ++i) {
    const kernels::RopeTable& table = rotations_[i].table;
    const std::size_t count = table.positions() * table.pairs();
    device_->upload(angles_[i].cos.take(count), table.cos(0), count * sizeof(float));
    device_->upload(angles_[i].sin.take(count), table.sin(0), count * sizeof(float));
  }
}

void CudaModel::multiply(const DeviceLinear& weights, const float* x, std::size_t rows,
                         float* out) {
  std::size_t first = 0;
  for (const auto& part : weights.parts) {
    const float* bias = weights.bias == nullptr ? nullptr : weights.bias + first;
    const kernels::cuda::MatmulArgs args{x, rows, part.cols, bias, out + first, weights.rows};
    first += part.rows;
    if (kernels::is_quantised(part.dtype)) {
      multiply_decoded(part, args);
      continue;
    }
    const bool mma = profile_ == kernels::Profile::mma_hopper && on_tensor_cores(part.dtype);
    const auto product = mma ? kernels::cuda::mma_matmul : kernels::cuda::matmul;
    product(part, args, device_->stream());
  }
}

void CudaModel::multiply_decoded(const kernels::cuda::Weights& weights,
                                 const kernels::cuda::MatmulArgs& args) {
  const std::size_t together = decoded_rows(weights.cols, 1);
  for (std::size_t first = 0; first < weights.rows; first += together) {
    kernels::cuda::DequantiseArgs decode;
    decode.dtype = weights.dtype;
    decode.cols = weights.cols;
    decode.rows = static_cast<const std::uint8_t*>(weights.data);
    decode.first_row = first;
    decode.row_count = std::min(together, weights.rows - first);
    decode.out = decoded_.take(kernels::cuda::dequantised_floats(decode));
    kernels::cuda::dequantise_panels(decode, device_->stream());
    kernels::cuda::MatmulArgs some = args;
    some.y += first;
    if (some.bias != nullptr) some.bias += first;
    kernels::cuda::matmul({decode.out, kernels::Dtype::f32, decode.row_count, weights.cols}, some,
                          device_->stream());
  }
}

void CudaModel::multiply_decoded(const DeviceExperts::Part& part,
                                 kernels::cuda::GroupedMatmulArgs args) {
  const std::size_t together = decoded_rows(part.cols, args.experts);
  args.dtype = kernels::Dtype::f32;
  for (std::size_t first = 0; first < part.rows; first += together) {
    kernels::cuda::DequantiseArgs decode;
    decode.dtype = part.dtype;
    decode.cols = part.cols;
    decode.experts = reinterpret_cast<const std::uint8_t* const*>(part.weights);
    decode.expert_count = args.experts;
    decode.first = args.first;
    decode.first_row = first;
    decode.row_count = std::min(together, part.rows - first);
    decode.out = decoded_.take(kernels::cuda::dequantised_floats(decode));
    decode.panels = decoded_of_.take(args.experts);
    kernels::cuda::dequantise_panels(decode, device_->stream());
    args.rows = decode.row_count;
    args.weights = decode.panels;
    kernels::cuda::grouped_matmul(args, device_->stream());
    args.y += decode.row_count;
  }
}

void CudaModel::embed(std::size_t rows) {
  const kernels::cuda::Weights& table = weights_.embedding.parts.front();
  if (kernels::is_quantised(table.dtype)) {
    kernels::cuda::gather_quantised_rows(static_cast<const std::uint8_t*>(table.data), table.dtype,
                                         table.cols, tokens_.data(), rows, config_.embedding_scale,
                                         x_.data(), device_->stream());
  } else {
    kernels::cuda::gather_rows(table, tokens_.data(), rows, config_.embedding_scale, x_.data(),
                               device_->stream());
  }
}

void CudaModel::normalize(const float* x, std::size_t rows, const float* weights, float* out) {
  const std::size_t width = config_.hidden_size;
  kernels::cuda::rmsnorm({rows, 1, width, static_cast<float>(config_.rms_norm_eps), false, x, width,
                          weights, out, width},
                         device_->stream());
}

void CudaModel::begin(std::span<ForwardRow> rows) {
  if (begin_pass(rows)) upload_rotations();
  std::vector<std::int32_t> tokens;
  for (const ForwardRow& row : rows) tokens.push_back(row.token);
  tokens_.fill(*device_, tokens);
  device_positions_.fill(*device_, positions_);
  device_->clear(range_.take(rows.size()), rows.size());
  const std::size_t width = config_.hidden_size;
  for (auto* array : {&x_, &normed_, &branch_}) array->take(rows.size() * width);
  const std::size_t q_width = config_.heads * config_.head_dim;
  qkv_.take(rows.size() * (q_width + 2 * config_.kv_heads * config_.head_dim));
  attended_.take(rows.size() * q_width);
  lay_out_attention(rows);
}

/// The same for all layers but for the pages: computed and sent over once.
void CudaModel::lay_out_attention(std::span<const ForwardRow> rows) {
  // 1. Pages of each sequence of the pass, a layer after the other.
  std::vector<kernels::KvPage> pages;
  std::map<const SequenceKv*, std::size_t> first_page;
  pages_max_ = 0;
  for (const ForwardRow& row : rows) {
    pages_max_ = std::max(pages_max_, row.position / kernels::kBlock + 1);
    if (!first_page.try_emplace(row.kv, pages.size()).second) continue;
    for (std::size_t layer = 0; layer < config_.layers; ++layer) {
      const kernels::KvPage* of_layer = row.kv->pages(layer);
      pages.insert(pages.end(), of_layer, of_layer + row.kv->blocks());
    }
  }
  const kernels::KvPage* on_device = pages_.fill(*device_, pages);

  // 2. What each row asks.
  const std::size_t q_width = config_.heads * config_.head_dim;
  const std::size_t width = q_width + 2 * config_.kv_heads * config_.head_dim;
  std::vector<kernels::cuda::AttentionRow> queries;
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    for (std::size_t r = 0; r < rows.size(); ++r)
      queries.push_back({qkv_.data() + r * width, attended_.data() + r * q_width, rows[r].position,
                         on_device + first_page[rows[r].kv] + layer * rows[r].kv->blocks()});
  }
  queries_.fill(*device_, queries);
  const auto tiles =
      kernels::cuda::attention_tiles(attention_, std::span(queries).first(rows.size()));
  tile_count_ = tiles.size();
  tiles_.fill(*device_, tiles);
}

/// q and k of every row, before the rotation.
void CudaModel::normalize_heads(const DeviceLayer& layer, std::size_t rows) {
  const std::size_t head_dim = config_.head_dim, width = layer.qkv.rows;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const bool whole = config_.qk_norm == QkNorm::all_heads;
  const auto normalize_part = [&](std::size_t heads, const float* norm, float* x) {
    kernels::cuda::rmsnorm({rows, whole ? 1 : heads, whole ? heads * head_dim : head_dim, eps,
                            false, x, width, norm, x, width},
                           device_->stream());
  };
  normalize_part(config_.heads, layer.q_norm, qkv_.data());
  normalize_part(config_.kv_heads, layer.k_norm, qkv_.data() + config_.heads * head_dim);
}

/// q and k of every row.
void CudaModel::rotate(std::size_t layer, std::size_t rows) {
  const std::size_t head_dim = config_.head_dim, width = weights_.layers[layer].qkv.rows;
  const std::size_t kind = rotation_of(layer);
  const auto rotate_part = [&](std::size_t heads, float* x) {
    kernels::cuda::rope_rotate(
        {rows, heads, head_dim, rotations_[kind].table.pairs(), false, device_positions_.data(),
         angles_[kind].cos.data(), angles_[kind].sin.data(), x, width},
        device_->stream());
  };
  rotate_part(config_.heads, qkv_.data());
  rotate_part(config_.kv_heads, qkv_.data() + config_.heads * head_dim);
}

void CudaModel::attend(std::size_t index, std::span<const ForwardRow> rows) {
  const DeviceLayer& layer = weights_.layers[index];
  const std::size_t q_width = config_.heads * config_.head_dim;
  const std::size_t kv_width = config_.kv_heads * config_.head_dim;
  const std::size_t width = q_width + 2 * kv_width;
  multiply(layer.qkv, normed_.data(), rows.size(), qkv_.data());
  watch_projections(index, rows, Operator::q, Operator::k);
  watch({index, Operator::v}, rows, qkv_.data() + q_width + kv_width, kv_width, width);

  if (config_.qk_norm != QkNorm::none) {
    normalize_heads(layer, rows.size());
    watch_projections(index, rows, Operator::q_norm, Operator::k_norm);
  }
  rotate(index, rows.size());
  watch_projections(index, rows, Operator::q_rotated, Operator::k_rotated);

  // Every key and value of the pass is stored before any query reads.
  kernels::cuda::AttentionArgs args;
  args.shape = attention_;
  args.shape.window = config_.windows[index];
  args.row_count = rows.size();
  args.rows = queries_.data() + index * rows.size();
  args.tile_count = tile_count_;
  args.tiles = tiles_.data();
  args.pages_max = pages_max_;
  if (rows.size() <= kSplitRowsMax || config_.head_dim > kUnsplitHeadDimMax)
    args.scratch = attention_scratch_.take(kernels::cuda::attention_scratch_floats(args));
  static_assert(sizeof(bool) == 1);
  args.range = reinterpret_cast<bool*>(range_.data());
  const float* k = qkv_.data() + q_width;
  kernels::cuda::kv_store(args.shape, args.rows, rows.size(), k, k + kv_width, width,
                          device_->stream());
  kernels::cuda::attention(args, device_->stream());
  watch({index, Operator::attention}, rows, attended_.data(), q_width, q_width);
  multiply(layer.output, attended_.data(), rows.size(), branch_.data());
}

void CudaModel::gate(const float* both, std::size_t rows, std::size_t width, float* out) {
  const auto gated =
      config_.activation == Activation::silu ? kernels::cuda::swiglu : kernels::cuda::geglu;
  gated({rows, width, both, both + width, 2 * width, out, width}, device_->stream());
}

void CudaModel::feed_forward(std::size_t index, std::span<const ForwardRow> rows) {
  const DeviceLayer& layer = weights_.layers[index];
  const std::size_t width = layer.down.cols;
  float* both = gate_up_.take(rows.size() * 2 * width);
  float* gated = gated_.take(rows.size() * width);
  multiply(layer.gate_up, normed_.data(), rows.size(), both);
  gate(both, rows.size(), width, gated);
  multiply(layer.down, gated, rows.size(), branch_.data());
  watch_gates(index, rows, width);
  watch({index, Operator::down}, rows, branch_.data());
}

/// y[s] of each slot s = row * experts_per_token + rank, by the expert that it names.
void CudaModel::multiply_experts(const DeviceExperts& experts, std::size_t rows,
                                 std::size_t slots_per_x_row, const float* x, float* y) {
  std::size_t first = 0;
  for (const DeviceExperts::Part& part : experts.parts) {
    kernels::cuda::GroupedMatmulArgs args;
    args.dtype = part.dtype;
    args.rows = part.rows;
    args.cols = part.cols;
    args.experts = config_.moe.experts;
    args.weights = part.weights;
    args.biases = part.biases;
    args.first = expert_first_.data();
    args.slots = expert_slots_.data();
    args.slots_of_one_max = rows;  // a row names an expert once
    args.slots_per_x_row = slots_per_x_row;
    args.x = x;
    args.x_stride = part.cols;
    args.y = y + first;
    args.y_stride = experts.rows;
    if (kernels::is_quantised(part.dtype)) {
      multiply_decoded(part, args);
    } else {
      kernels::cuda::grouped_matmul(args, device_->stream());
    }
    first += part.rows;
  }
}

void CudaModel::mix_experts(std::size_t index, std::span<const ForwardRow> rows) {
  const DeviceLayer& layer = weights_.layers[index];
  const MoeConfig& moe = config_.moe;
  const std::size_t slots = rows.size() * moe.experts_per_token, width = moe.intermediate_size;
  float* logits = router_logits_.take(rows.size() * moe.experts);
  multiply(layer.router, normed_.data(), rows.size(), logits);
  watch({index, Operator::router}, rows, logits, moe.experts, moe.experts);
  std::int32_t* chosen = experts_.take(slots);
  float* weights = expert_weights_.take(slots);
  kernels::cuda::route({rows.size(), moe.experts, moe.experts_per_token, moe.renormalize, logits,
                        chosen, weights, reinterpret_cast<bool*>(range_.data())},
                       device_->stream());
  kernels::cuda::group_by_expert(chosen, slots, moe.experts, expert_first_.take(moe.experts + 1),
                                 expert_slots_.take(slots), device_->stream());

  float* both = gate_up_.take(slots * 2 * width);
  float* gated = gated_.take(slots * width);
  float* branches = expert_branches_.take(slots * config_.hidden_size);
  if (watched_) {  // slots of a row that no expert computes for are zeros to whoever digests them
    device_->clear(both, slots * 2 * width * sizeof(float));
    device_->clear(branches, slots * config_.hidden_size * sizeof(float));
  }
  multiply_experts(layer.expert_gate_up, rows.size(), moe.experts_per_token, normed_.data(), both);
  gate(both, slots, width, gated);
  multiply_experts(layer.expert_down, rows.size(), 1, gated, branches);
  watch_expert_gates(index, rows, width);
  const std::size_t all = moe.experts_per_token * config_.hidden_size;
  watch({index, Operator::down}, rows, branches, all, all);
  kernels::cuda::mix({rows.size(), moe.experts_per_token, config_.hidden_size, chosen, weights,
                      branches, branch_.data()},
                     device_->stream());
  watch({index, Operator::mixture}, rows, branch_.data());
}

void CudaModel::forward(std::span<ForwardRow> rows) {
  if (rows.empty()) return;
  begin(rows);
  const std::size_t count = rows.size(), width = config_.hidden_size;
  embed(count);
  watch({0, Operator::embedding}, rows, x_.data());
  const auto add_branch = [&] {
    kernels::cuda::add_in_place(x_.data(), branch_.data(), count * width, device_->stream());
  };
  for (std::size_t i = 0; i < config_.layers; ++i) {
    const DeviceLayer& layer = weights_.layers[i];
    normalize(x_.data(), count, layer.attention_norm, normed_.data());
    watch({i, Operator::attention_norm}, rows, normed_.data());
    attend(i, rows);
    watch({i, Operator::attention_output}, rows, branch_.data());
    if (config_.post_norms) {
      normalize(branch_.data(), count, layer.post_attention_norm, branch_.data());
      watch({i, Operator::attention_post_norm}, rows, branch_.data());
    }
    add_branch();
    watch({i, Operator::attention_residual}, rows, x_.data());
    normalize(x_.data(), count, layer.feed_forward_norm, normed_.data());
    watch({i, Operator::feed_forward_norm}, rows, normed_.data());
    if (config_.moe_layers[i]) {
      mix_experts(i, rows);
    } else {
      feed_forward(i, rows);
    }
    if (config_.post_norms) {
      normalize(branch_.data(), count, layer.post_feed_forward_norm, branch_.data());
      watch({i, Operator::feed_forward_post_norm}, rows, branch_.data());
    }
    add_branch();
    watch({i, Operator::feed_forward_residual}, rows, x_.data());
  }

  keep_last_hidden(rows);
  // Also where nobody wants logits: this waits for the pass, and says if it failed.
  std::vector<std::uint8_t> flags(count);
  device_->download(flags.data(), range_.data(), count);
  for (std::size_t r = 0; r < count; ++r) rows[r].range |= flags[r] != 0;
  if (profile_ != kernels::Profile::mma_hopper) return;
  const std::vector<bool> left = not_finite(count);
  for (std::size_t r = 0; r < count; ++r) rows[r].range |= left[r];
}

/// The last norm, for rows that go on to the logits.
void CudaModel::keep_last_hidden(std::span<const ForwardRow> rows) {
  const std::size_t width = config_.hidden_size;
  std::vector<ForwardRow> chosen;
  float* x = chosen_rows_.take(rows.size() * width);
  for (std::size_t r = 0; r < rows.size();) {
    std::size_t end = r;  // neighbours are copied at once
    while (end < rows.size() && rows[end].wants_logits) chosen.push_back(rows[end++]);
    const std::size_t run = end - r;
    if (run > 0)
      device_->copy(x + (chosen.size() - run) * width, x_.data() + r * width,
                    run * width * sizeof(float));
    r = end + 1;  // the row that ended the run is not wanted
  }
  if (chosen.empty()) return;
  const std::size_t values = chosen.size() * width;
  normalize(x, chosen.size(), weights_.final_norm, last_on_device_.take(values));
  device_->download(last_.take(values), last_on_device_.data(), values * sizeof(float));
  if (watched_)
    digest_rows({LayerStage::kAfterLayers, Operator::final_norm}, chosen, last_.data(), width,
                width);
}

std::vector<bool> CudaModel::not_finite(std::size_t count) {
  const std::size_t width = config_.hidden_size;
  std::vector<bool> out;
  for (std::size_t first = 0; first < count; first += kStatRowsMax) {
    const kernels::cuda::LogitRows rows{x_.data() + first * width,
                                        std::min(count - first, kStatRowsMax), width, width};
    std::vector<kernels::cuda::LogitStats> stats(rows.rows);
    const std::size_t bytes = stats.size() * sizeof(stats[0]);
    auto* on_device = reinterpret_cast<kernels::cuda::LogitStats*>(stats_.take(bytes));
    kernels::cuda::logit_stats(rows, stats_scratch_.take(kernels::cuda::logit_scratch_bytes(rows)),
                               on_device, device_->stream());
    device_->download(stats.data(), on_device, bytes);
    for (const auto& each : stats) out.push_back(each.finite == 0);
  }
  return out;
}

void CudaModel::logits(std::size_t first, std::size_t count, float* out) {
  const DeviceLinear& head = weights_.lm_head;
  float* y = logits_.take(count * head.rows);
  multiply(head, last_on_device_.data() + first * config_.hidden_size, count, y);
  if (config_.final_softcap != 0)
    kernels::cuda::softcap_in_place(y, static_cast<float>(config_.final_softcap), count * head.rows,
                                    device_->stream());
  device_->download(out, y, count * head.rows * sizeof(float));
}

void CudaModel::watch(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
                      std::size_t width, std::size_t stride) {
  if (!watched_) return;
  watched_values_.resize((rows.size() - 1) * stride + width);
  device_->download(watched_values_.data(), x, watched_values_.size() * sizeof(float));
  digest_rows(stage, rows, watched_values_.data(), width, stride);
}

void CudaModel::watch_projections(std::size_t layer, std::span<const ForwardRow> rows, Operator q,
                                  Operator k) {
  const std::size_t q_width = config_.heads * config_.head_dim;
  const std::size_t kv_width = config_.kv_heads * config_.head_dim;
  const std::size_t stride = q_width + 2 * kv_width;
  watch({layer, q}, rows, qkv_.data(), q_width, stride);
  watch({layer, k}, rows, qkv_.data() + q_width, kv_width, stride);
}

void CudaModel::watch_gates(std::size_t layer, std::span<const ForwardRow> rows,
                            std::size_t width) {
  watch({layer, Operator::gate}, rows, gate_up_.data(), width, 2 * width);
  watch({layer, Operator::up}, rows, gate_up_.data() + width, width, 2 * width);
  watch({layer, Operator::gated}, rows, gated_.data(), width, width);
}

/// A row's experts in rank order, one after the other.
void CudaModel::watch_expert_gates(std::size_t layer, std::span<const ForwardRow> rows,
                                   std::size_t width) {
  if (!watched_) return;
  const std::size_t ranks = config_.moe.experts_per_token, slots = rows.size() * ranks;
  std::vector<float> both(slots * 2 * width), half(slots * width);
  device_->download(both.data(), gate_up_.data(), both.size() * sizeof(float));
  for (const auto& [op, offset] :
       {std::pair{Operator::gate, std::size_t{0}}, std::pair{Operator::up, width}}) {
    for (std::size_t s = 0; s < slots; ++s)
      std::copy_n(both.data() + 2 * s * width + offset, width, half.data() + s * width);
    digest_rows({layer, op}, rows, half.data(), ranks * width, ranks * width);
  }
  watch({layer, Operator::gated}, rows, gated_.data(), ranks * width, ranks * width);
}

}  // namespace verbatim::local_engine::cuda
