#include "local_engine/model/cpu_model.hpp"

#include "kernels/elementwise/elementwise.hpp"
#include "kernels/gate/gate.hpp"
#include "kernels/logits/logits.hpp"
#include "kernels/mma/mma.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace verbatim::local_engine {
namespace {

// What an element costs, in multiply-adds of a matrix product: of element-wise work, and where each lies on a cache line
// of its own.
constexpr std::size_t kElementCost = 8;
constexpr std::size_t kScatteredCost = 32;

}  // namespace

CpuModel::CpuModel(const HostModel& host, kernels::Backend backend, kernels::Profile profile)
    : Model(host, backend, profile, KvPool::host_memory()),
      weights_(host.weights),
      watches_files_(weights_->read_from_files()) {}

Result<std::unique_ptr<Model>> CpuModel::make(const HostModel& host, kernels::Backend backend,
                                              kernels::Profile profile) {
  std::unique_ptr<CpuModel> model(new CpuModel(host, backend, profile));
  if (const auto made = model->make_rotations(host.path); !made) return made.error();
  return std::unique_ptr<Model>(std::move(model));
}

std::string CpuModel::backend_name() const { return std::string(kernels::name(host_backend())); }

Result<void> CpuModel::check_files() const {
  if (!watches_files_) return {};
  for (const auto& file : weights_->files) {
    if (const auto same = file->check_unchanged(); !same) return same.error();
  }
  return {};
}

void CpuModel::multiply(const Linear& weights, const float* x, std::size_t rows, float* out) {
  const std::size_t width = weights.rows();
  std::size_t first = 0;
  for (const auto& part : weights.parts) {
    const float* bias = weights.bias.empty() ? nullptr : weights.bias.data() + first;
    const bool mma = profile_ == kernels::Profile::mma_hopper && on_tensor_cores(part.dtype());
    const auto product = mma ? kernels::mma_matmul : kernels::matmul;
    product(host_backend(), part, {x, rows, part.cols(), bias, out + first, width},
            pool_for(rows * part.rows() * part.cols()));
    first += part.rows();
  }
}

void CpuModel::normalize(const float* x, std::size_t rows, const std::vector<float>& weights,
                         float* out) {
  const std::size_t width = config_.hidden_size;
  kernels::rmsnorm(host_backend(),
                   {rows, width, static_cast<float>(config_.rms_norm_eps), false, x, width,
                    weights.data(), out, width},
                   pool_for(kElementCost * rows * width));
}

void CpuModel::embed(std::span<const ForwardRow> rows) {
  const std::size_t width = config_.hidden_size;
  float* x = x_.take(rows.size() * width);
  each_row(rows.size(), kScatteredCost * width, [&](std::size_t r) {
    weights_->embedding.parts.front().unpack_row(static_cast<std::size_t>(rows[r].token),
                                                 x + r * width);
  });
  if (config_.embedding_scale != 1)
    kernels::scale_in_place(host_backend(), x, config_.embedding_scale, rows.size() * width);
}

/// q and k of every row, before the rotation.
void CpuModel::normalize_heads(const LayerWeights& layer, std::size_t rows) {
  const std::size_t head_dim = config_.head_dim, q_width = config_.heads * head_dim;
  const std::size_t width = layer.qkv.rows();
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  if (config_.qk_norm == QkNorm::all_heads) {
    for (const auto& [norm, offset] :
         {std::pair{&layer.q_norm, std::size_t{0}}, std::pair{&layer.k_norm, q_width}}) {
      float* x = qkv_.data() + offset;
      kernels::rmsnorm(host_backend(),
                       {rows, norm->size(), eps, false, x, width, norm->data(), x, width});
    }
    return;
  }
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    float* q = qkv_.data() + r * width;
    float* k = q + q_width;
    kernels::rmsnorm(host_backend(), {config_.heads, head_dim, eps, false, q, head_dim,
                                      layer.q_norm.data(), q, head_dim});
    kernels::rmsnorm(host_backend(), {config_.kv_heads, head_dim, eps, false, k, head_dim,
                                      layer.k_norm.data(), k, head_dim});
  });
}

/// q and k of every row.
void CpuModel::rotate(std::size_t layer, std::size_t rows) {
  const std::size_t head_dim = config_.head_dim, q_width = config_.heads * head_dim;
  const std::size_t width = weights_->layers[layer].qkv.rows();
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    for (const auto& [heads, offset] :
         {std::pair{config_.heads, std::size_t{0}}, std::pair{config_.kv_heads, q_width}})
      kernels::rope_rotate(host_backend(), rotations_[rotation_of(layer)].table,
                           {1, heads, head_dim, kernels::RopePairing::half_split, &positions_[r],
                            qkv_.data() + r * width + offset, width});
  });
}

/// The branch's output onto the residual stream.
void CpuModel::add_branch(std::size_t rows) {
  const std::size_t width = config_.hidden_size;
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    kernels::add_in_place(host_backend(), x_.data() + r * width, branch_.data() + r * width, width);
  });
}

void CpuModel::mark_range(std::span<ForwardRow> rows) {
  const std::size_t width = config_.hidden_size;
  each_row(rows.size(), kElementCost * width, [&](std::size_t r) {
    if (!kernels::all_finite(host_backend(), {x_.data() + r * width, width})) rows[r].range = true;
  });
}

void CpuModel::attend(std::size_t index, std::span<ForwardRow> rows) {
  const LayerWeights& layer = weights_->layers[index];
  const std::size_t head_dim = config_.head_dim;
  const std::size_t q_width = config_.heads * head_dim, kv_width = config_.kv_heads * head_dim;
  const std::size_t width = q_width + 2 * kv_width;
  multiply(layer.qkv, normed_.data(), rows.size(), qkv_.take(rows.size() * width));
  watch_projections(index, rows, Operator::q, Operator::k);
  watch({index, Operator::v}, rows, qkv_.data() + q_width + kv_width, kv_width, width);

  if (config_.qk_norm != QkNorm::none) {
    normalize_heads(layer, rows.size());
    watch_projections(index, rows, Operator::q_norm, Operator::k_norm);
  }
  rotate(index, rows.size());
  watch_projections(index, rows, Operator::q_rotated, Operator::k_rotated);

  // Every key and value of the pass is stored before any query reads: rows of one sequence see
  // those before them.
  float* attended = attended_.take(rows.size() * q_width);
  std::vector<kernels::AttentionRow> queries(rows.size());
  kernels::AttentionShape shape = attention_;
  shape.window = config_.windows[index];
  each_row(rows.size(), kScatteredCost * 2 * kv_width, [&](std::size_t r) {
    const float* q = qkv_.data() + r * width;
    const auto* pages = rows[r].kv->pages(index);
    const std::size_t position = rows[r].position;
    kernels::kv_store(shape, pages[position / kernels::kBlock], position % kernels::kBlock,
                      q + q_width, q + q_width + kv_width);
    queries[r] = {q, attended + r * q_width, position, pages, false};
  });
  std::size_t keys = 0;
  for (const auto& row : rows)
    keys += shape.window == 0 ? row.position + 1 : std::min(row.position + 1, shape.window);
  kernels::attention(host_backend(), shape, queries, pool_for(2 * keys * q_width));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r].range |= queries[r].range;
  watch({index, Operator::attention}, rows, attended, q_width, q_width);
  multiply(layer.output, attended, rows.size(), branch_.data());
}

void CpuModel::feed_forward(const FeedForward& weights, const float* x, std::size_t rows,
                            float* out) {
  const std::size_t width = weights.down.cols();
  float* gate_up = gate_up_.take(rows * 2 * width);
  float* product = gated_.take(rows * width);
  multiply(weights.gate_up, x, rows, gate_up);
  const auto gated = config_.activation == Activation::silu ? kernels::swiglu : kernels::geglu;
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    const float* gate = gate_up + r * 2 * width;
    gated(host_backend(), gate, gate + width, width, product + r * width);
  });
  multiply(weights.down, product, rows, out);
}

void CpuModel::forward(std::span<ForwardRow> rows) {
  // 1. Positions, and a table that reaches them.
  begin_pass(rows);

  // 2. The layers: x += attention(norm(x)); x += feed_forward(norm(x)); some models normalize each
  // branch once more before it is added.
  embed(rows);
  watch({0, Operator::embedding}, rows, x_);
  normed_.take(rows.size() * config_.hidden_size);
  branch_.take(rows.size() * config_.hidden_size);
  for (std::size_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_->layers[i];
    normalize(x_.data(), rows.size(), layer.attention_norm, normed_.data());
    watch({i, Operator::attention_norm}, rows, normed_);
    attend(i, rows);
    watch({i, Operator::attention_output}, rows, branch_);
    if (config_.post_norms) {
      normalize(branch_.data(), rows.size(), layer.post_attention_norm, branch_.data());
      watch({i, Operator::attention_post_norm}, rows, branch_);
    }
    add_branch(rows.size());
    watch({i, Operator::attention_residual}, rows, x_);
    normalize(x_.data(), rows.size(), layer.feed_forward_norm, normed_.data());
    watch({i, Operator::feed_forward_norm}, rows, normed_);
    if (config_.moe_layers[i]) {
      mix_experts(i, rows, branch_.data());
    } else {
      feed_forward(layer.dense, normed_.data(), rows.size(), branch_.data());
      watch_gates(i, rows);
      watch({i, Operator::down}, rows, branch_);
    }
    if (config_.post_norms) {
      normalize(branch_.data(), rows.size(), layer.post_feed_forward_norm, branch_.data());
      watch({i, Operator::feed_forward_post_norm}, rows, branch_);
    }
    add_branch(rows.size());
    watch({i, Operator::feed_forward_residual}, rows, x_);
  }

  if (profile_ == kernels::Profile::mma_hopper) mark_range(rows);

  // 3. The last norm, for rows that go on to the logits.
  const std::size_t width = config_.hidden_size;
  std::size_t wanted = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) continue;
    std::memmove(x_.data() + wanted * width, x_.data() + r * width, width * sizeof(float));
    ++wanted;
  }
  if (wanted == 0) return;
  normalize(x_.data(), wanted, weights_->final_norm, last_.take(wanted * width));
  if (!watched_) return;
  std::vector<ForwardRow> chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen),
               [](const ForwardRow& row) { return row.wants_logits; });
  watch({LayerStage::kAfterLayers, Operator::final_norm}, chosen, last_);
}

void CpuModel::logits(std::size_t first, std::size_t count, float* out) {
  const auto& head = config_.tied ? weights_->embedding : weights_->lm_head;
  multiply(head, last_.data() + first * config_.hidden_size, count, out);
  if (config_.final_softcap == 0) return;
  const auto cap = static_cast<float>(config_.final_softcap);
  const std::size_t width = head.rows();
  kernels::run_tasks(pool_for(count * width * 8), width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = 0; r < count; ++r)
      kernels::softcap_in_place(host_backend(), out + r * width + begin, cap, end - begin);
  });
}

}  // namespace verbatim::local_engine
