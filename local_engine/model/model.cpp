#include "local_engine/model/model.hpp"

#include "kernels/elementwise/elementwise.hpp"
#include "kernels/gate/gate.hpp"
#include "kernels/logits/logits.hpp"
#include "kernels/mma/mma.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

namespace verbatim::local_engine {
namespace {

// Below this many multiply-adds a second thread costs more than it brings.
constexpr std::size_t kThreadedOperationsMin = 1u << 19;
// What an element costs, in multiply-adds of a matrix product: of element-wise work, and where each lies on a cache line
// of its own.
constexpr std::size_t kElementCost = 8;
constexpr std::size_t kScatteredCost = 32;
constexpr std::size_t kRopePositionsFirst = 1024;

/// inv[i] of the configured kind. Numerics section 3.
std::vector<float> scaled(const std::vector<float>& inverse, const RopeConfig& rope) {
  switch (rope.kind) {
    case RopeKind::plain:
      return inverse;
    case RopeKind::linear:
      return kernels::rope_scale_linear(inverse, rope.factor);
    case RopeKind::llama3:
      return kernels::rope_scale_llama3(inverse, {rope.factor, rope.low_freq_factor,
                                                  rope.high_freq_factor, rope.original_positions});
    case RopeKind::yarn:
      return kernels::rope_scale_yarn(inverse, {rope.factor, rope.theta, rope.original_positions,
                                                rope.beta_fast, rope.beta_slow, rope.truncate});
    case RopeKind::factors:
      break;
  }
  std::vector<float> divided;
  for (std::size_t i = 0; i < inverse.size(); ++i)
    divided.push_back(static_cast<float>(double{inverse[i]} / double{rope.factors[i]}));
  return divided;
}

/// Of profile mma-hopper/1: f32 and quantised weights are multiplied as in the other.
bool on_tensor_cores(kernels::Dtype dtype) {
  return dtype == kernels::Dtype::bf16 || dtype == kernels::Dtype::f16;
}

}  // namespace

Model::Model(ModelConfig config, kernels::Backend backend, int threads, kernels::Profile profile)
    : config_(std::move(config)),
      backend_(backend),
      profile_(profile),
      pool_(std::make_unique<kernels::ThreadPool>(threads)) {
  kv_pool_ = std::make_unique<KvPool>(config_.layers,
                                      kernels::kv_page_floats(config_.kv_heads, config_.head_dim));
  attention_.heads = config_.heads;
  attention_.kv_heads = config_.kv_heads;
  attention_.head_dim = config_.head_dim;
  // x^-0.5 in f64: a square root and a division are correctly rounded everywhere, pow is not.
  attention_.scale = static_cast<float>(1.0 / std::sqrt(config_.attention_scalar));
  attention_.softcap = static_cast<float>(config_.attention_softcap);
}

Result<Model::Rotation> Model::make_rotation(const RopeConfig& rope, std::size_t dim) {
  const auto inverse = kernels::rope_inverse_frequencies(rope.theta, dim);
  if (!inverse) return inverse.error();
  Rotation rotation;
  rotation.inverse_frequencies = scaled(*inverse, rope);
  const bool has_factor = rope.kind == RopeKind::yarn || rope.kind == RopeKind::factors;
  if (has_factor && rope.attention_factor != 0) {
    rotation.attention_factor = rope.attention_factor;
  } else if (rope.kind == RopeKind::yarn) {
    rotation.attention_factor = kernels::rope_yarn_attention_factor(rope.factor);
  }
  return rotation;
}

Result<std::unique_ptr<Model>> Model::load(const ModelFiles& files, kernels::Backend backend,
                                           int threads, kernels::Profile profile) {
  kernels::make_floating_point_exact();
  auto config = read_config(files);
  if (!config) return config.error();
  std::unique_ptr<Model> model(new Model(std::move(*config), backend, threads, profile));
  auto weights = load_weights(files, model->config_, model->pool());
  if (!weights) return weights.error();
  model->weights_ = std::move(*weights);
  model->watches_files_ = model->weights_.read_from_files();
  if (!model->watches_files_) model->weights_.files.clear();
  std::vector<const RopeConfig*> ropes{&model->config_.rope};
  if (model->config_.local_rope) ropes.push_back(&*model->config_.local_rope);
  for (const RopeConfig* rope : ropes) {
    auto rotation = make_rotation(*rope, model->config_.rotary_dim);
    if (!rotation)
      return Error{rotation.error().code, rotation.error().what, files.path.string(),
                   rotation.error().advice};
    model->rotations_.push_back(std::move(*rotation));
  }
  if (const auto grown = model->grow_rope(1); !grown) return grown.error();
  return model;
}

Result<void> Model::check_files() const {
  if (!watches_files_) return {};
  for (const auto& file : weights_.files) {
    if (const auto same = file->check_unchanged(); !same) return same.error();
  }
  return {};
}

std::size_t Model::kv_block_bytes() const { return kv_pool_->block_bytes(); }

Result<void> Model::grow_rope(std::size_t positions) {
  for (Rotation& rotation : rotations_) {
    const std::size_t have = rotation.table.positions();
    if (positions <= have) continue;
    const std::size_t wanted =
        std::min(config_.context_max, std::max({positions, 2 * have, kRopePositionsFirst}));
    auto table = kernels::RopeTable::make(rotation.inverse_frequencies, wanted,
                                          rotation.attention_factor, pool_.get());
    if (!table) return table.error();
    rotation.table = std::move(*table);
  }
  return {};
}

const kernels::RopeTable& Model::rope_of(std::size_t layer) const {
  const bool local = rotations_.size() > 1 && config_.windows[layer] != 0;
  return rotations_[local ? 1 : 0].table;
}

kernels::ThreadPool* Model::pool_for(std::size_t operations) {
  return operations >= kThreadedOperationsMin ? pool_.get() : nullptr;
}

void Model::multiply(const Linear& weights, const float* x, std::size_t rows, float* out) {
  const std::size_t width = weights.rows();
  std::size_t first = 0;
  for (const auto& part : weights.parts) {
    const float* bias = weights.bias.empty() ? nullptr : weights.bias.data() + first;
    const bool mma = profile_ == kernels::Profile::mma_hopper && on_tensor_cores(part.dtype());
    const auto product = mma ? kernels::mma_matmul : kernels::matmul;
    product(backend_, part, {x, rows, part.cols(), bias, out + first, width},
            pool_for(rows * part.rows() * part.cols()));
    first += part.rows();
  }
}

void Model::normalize(const float* x, std::size_t rows, const std::vector<float>& weights,
                      float* out) {
  const std::size_t width = config_.hidden_size;
  kernels::rmsnorm(backend_,
                   {rows, width, static_cast<float>(config_.rms_norm_eps), false, x, width,
                    weights.data(), out, width},
                   pool_for(kElementCost * rows * width));
}

void Model::embed(std::span<const ForwardRow> rows) {
  const std::size_t width = config_.hidden_size;
  float* x = x_.take(rows.size() * width);
  each_row(rows.size(), kScatteredCost * width, [&](std::size_t r) {
    weights_.embedding.parts.front().unpack_row(static_cast<std::size_t>(rows[r].token),
                                                x + r * width);
  });
  if (config_.embedding_scale != 1)
    kernels::scale_in_place(backend_, x, config_.embedding_scale, rows.size() * width);
}

/// q and k of every row, before the rotation.
void Model::normalize_heads(const LayerWeights& layer, std::size_t rows) {
  const std::size_t head_dim = config_.head_dim, q_width = config_.heads * head_dim;
  const std::size_t width = layer.qkv.rows();
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  if (config_.qk_norm == QkNorm::all_heads) {
    for (const auto& [norm, offset] :
         {std::pair{&layer.q_norm, std::size_t{0}}, std::pair{&layer.k_norm, q_width}}) {
      float* x = qkv_.data() + offset;
      kernels::rmsnorm(backend_,
                       {rows, norm->size(), eps, false, x, width, norm->data(), x, width});
    }
    return;
  }
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    float* q = qkv_.data() + r * width;
    float* k = q + q_width;
    kernels::rmsnorm(backend_, {config_.heads, head_dim, eps, false, q, head_dim,
                                layer.q_norm.data(), q, head_dim});
    kernels::rmsnorm(backend_, {config_.kv_heads, head_dim, eps, false, k, head_dim,
                                layer.k_norm.data(), k, head_dim});
  });
}

/// q and k of every row.
void Model::rotate(std::size_t layer, std::size_t rows) {
  const std::size_t head_dim = config_.head_dim, q_width = config_.heads * head_dim;
  const std::size_t width = weights_.layers[layer].qkv.rows();
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    for (const auto& [heads, offset] :
         {std::pair{config_.heads, std::size_t{0}}, std::pair{config_.kv_heads, q_width}})
      kernels::rope_rotate(backend_, rope_of(layer),
                           {1, heads, head_dim, kernels::RopePairing::half_split, &positions_[r],
                            qkv_.data() + r * width + offset, width});
  });
}

/// The branch's output onto the residual stream.
void Model::add_branch(std::size_t rows) {
  const std::size_t width = config_.hidden_size;
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    kernels::add_in_place(backend_, x_.data() + r * width, branch_.data() + r * width, width);
  });
}

void Model::mark_range(std::span<ForwardRow> rows) {
  const std::size_t width = config_.hidden_size;
  each_row(rows.size(), kElementCost * width, [&](std::size_t r) {
    if (!kernels::all_finite(backend_, {x_.data() + r * width, width})) rows[r].range = true;
  });
}

void Model::attend(std::size_t index, std::span<ForwardRow> rows) {
  const LayerWeights& layer = weights_.layers[index];
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
  kernels::attention(backend_, shape, queries, pool_for(2 * keys * q_width));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r].range |= queries[r].range;
  watch({index, Operator::attention}, rows, attended, q_width, q_width);
  multiply(layer.output, attended, rows.size(), branch_.data());
}

void Model::feed_forward(const FeedForward& weights, const float* x, std::size_t rows, float* out) {
  const std::size_t width = weights.down.cols();
  float* gate_up = gate_up_.take(rows * 2 * width);
  float* product = gated_.take(rows * width);
  multiply(weights.gate_up, x, rows, gate_up);
  const auto gated = config_.activation == Activation::silu ? kernels::swiglu : kernels::geglu;
  each_row(rows, kElementCost * width, [&](std::size_t r) {
    const float* gate = gate_up + r * 2 * width;
    gated(backend_, gate, gate + width, width, product + r * width);
  });
  multiply(weights.down, product, rows, out);
}

void Model::forward(std::span<ForwardRow> rows) {
  // 1. Positions, and a table that reaches them. It cannot fail: each position is below
  // context_max, which was checked.
  positions_.clear();
  std::size_t reach = 0;
  watched_ = false;
  for (const auto& row : rows) {
    positions_.push_back(row.position);
    watched_ = watched_ || row.digests != nullptr;
    reach = std::max(reach, row.position + 1);
  }
  VERBATIM_CHECK(grow_rope(reach).has_value());

  // 2. The layers: x += attention(norm(x)); x += feed_forward(norm(x)); some models normalize each
  // branch once more before it is added.
  embed(rows);
  watch({0, Operator::embedding}, rows, x_);
  normed_.take(rows.size() * config_.hidden_size);
  branch_.take(rows.size() * config_.hidden_size);
  for (std::size_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[i];
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
  normalize(x_.data(), wanted, weights_.final_norm, last_.take(wanted * width));
  if (!watched_) return;
  std::vector<ForwardRow> chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen),
               [](const ForwardRow& row) { return row.wants_logits; });
  watch({LayerStage::kAfterLayers, Operator::final_norm}, chosen, last_);
}

void Model::logits(std::size_t first, std::size_t count, float* out) {
  const auto& head = config_.tied ? weights_.embedding : weights_.lm_head;
  multiply(head, last_.data() + first * config_.hidden_size, count, out);
  if (config_.final_softcap == 0) return;
  const auto cap = static_cast<float>(config_.final_softcap);
  const std::size_t width = head.rows();
  kernels::run_tasks(pool_for(count * width * 8), width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = 0; r < count; ++r)
      kernels::softcap_in_place(backend_, out + r * width + begin, cap, end - begin);
  });
}

}  // namespace verbatim::local_engine
