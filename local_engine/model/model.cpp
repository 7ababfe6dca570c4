#include "local_engine/model/model.hpp"

#include "kernels/elementwise/elementwise.hpp"
#include "kernels/gate/gate.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace verbatim::local_engine {
namespace {

// Below this many multiply-adds a second thread costs more than it brings.
constexpr std::size_t kThreadedOperationsMin = 1u << 19;
constexpr std::size_t kRopePositionsFirst = 1024;

/// inv[i] of the configured kind. Numerics section 3.
Result<std::vector<float>> inverse_frequencies(const ModelConfig& config) {
  auto inverse = kernels::rope_inverse_frequencies(config.rope.theta, config.head_dim);
  if (!inverse) return inverse;
  const auto& rope = config.rope;
  switch (rope.kind) {
    case RopeKind::plain:
      return inverse;
    case RopeKind::linear:
      return kernels::rope_scale_linear(*inverse, rope.factor);
    case RopeKind::llama3:
      return kernels::rope_scale_llama3(*inverse, {rope.factor, rope.low_freq_factor,
                                                   rope.high_freq_factor, rope.original_positions});
    case RopeKind::factors:
      for (std::size_t i = 0; i < inverse->size(); ++i)
        (*inverse)[i] = static_cast<float>(double{(*inverse)[i]} / double{rope.factors[i]});
      return inverse;
  }
  return inverse;
}

}  // namespace

Model::Model(ModelConfig config, kernels::Backend backend, int threads)
    : config_(std::move(config)),
      backend_(backend),
      pool_(std::make_unique<kernels::ThreadPool>(threads)) {
  attention_.heads = config_.heads;
  attention_.kv_heads = config_.kv_heads;
  attention_.head_dim = config_.head_dim;
  // head_dim^-0.5 in f64: a square root and a division are correctly rounded everywhere, pow is
  // not.
  attention_.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
}

Result<std::unique_ptr<Model>> Model::load(const ModelFiles& files, kernels::Backend backend,
                                           int threads) {
  kernels::make_floating_point_exact();
  auto config = read_config(files);
  if (!config) return config.error();
  std::unique_ptr<Model> model(new Model(std::move(*config), backend, threads));
  auto weights = load_weights(files, model->config_, model->pool());
  if (!weights) return weights.error();
  model->weights_ = std::move(*weights);
  model->watches_files_ = model->weights_.read_from_files();
  if (!model->watches_files_) model->weights_.files.clear();
  auto inverse = inverse_frequencies(model->config_);
  if (!inverse)
    return Error{inverse.error().code, inverse.error().what, files.path.string(),
                 inverse.error().advice};
  model->inverse_frequencies_ = std::move(*inverse);
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

std::size_t Model::kv_block_bytes() const {
  return 2 * config_.layers * kernels::kv_page_floats(config_.kv_heads, config_.head_dim) *
         sizeof(float);
}

std::shared_ptr<KvBlock> Model::new_kv_block() const {
  return std::make_shared<KvBlock>(config_.layers,
                                   kernels::kv_page_floats(config_.kv_heads, config_.head_dim));
}

Result<void> Model::grow_rope(std::size_t positions) {
  if (positions <= rope_.positions()) return {};
  const std::size_t wanted = std::min(
      config_.context_max, std::max({positions, 2 * rope_.positions(), kRopePositionsFirst}));
  auto table = kernels::RopeTable::make(inverse_frequencies_, wanted, 1, pool_.get());
  if (!table) return table.error();
  rope_ = std::move(*table);
  return {};
}

kernels::ThreadPool* Model::pool_for(std::size_t operations) {
  return operations >= kThreadedOperationsMin ? pool_.get() : nullptr;
}

void Model::multiply(const Linear& weights, const float* x, std::size_t rows, float* out) {
  const std::size_t width = weights.rows();
  std::size_t first = 0;
  for (const auto& part : weights.parts) {
    const float* bias = weights.bias.empty() ? nullptr : weights.bias.data() + first;
    kernels::matmul(backend_, part, {x, rows, part.cols(), bias, out + first, width},
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
                   pool_for(rows * width));
}

void Model::embed(std::span<const ForwardRow> rows) {
  const std::size_t width = config_.hidden_size;
  x_.resize(rows.size() * width);
  for (std::size_t r = 0; r < rows.size(); ++r)
    weights_.embedding.parts.front().unpack_row(static_cast<std::size_t>(rows[r].token),
                                                x_.data() + r * width);
}

void Model::attend(std::size_t index, std::span<ForwardRow> rows) {
  const LayerWeights& layer = weights_.layers[index];
  const std::size_t head_dim = config_.head_dim;
  const std::size_t q_width = config_.heads * head_dim, kv_width = config_.kv_heads * head_dim;
  const std::size_t width = q_width + 2 * kv_width;
  qkv_.resize(rows.size() * width);
  multiply(layer.qkv, normed_.data(), rows.size(), qkv_.data());

  // Each head of q and k is normalized by itself, before the rotation.
  if (config_.qk_norm) {
    const auto eps = static_cast<float>(config_.rms_norm_eps);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      float* q = qkv_.data() + r * width;
      float* k = q + q_width;
      kernels::rmsnorm(backend_, {config_.heads, head_dim, eps, false, q, head_dim,
                                  layer.q_norm.data(), q, head_dim});
      kernels::rmsnorm(backend_, {config_.kv_heads, head_dim, eps, false, k, head_dim,
                                  layer.k_norm.data(), k, head_dim});
    }
  }
  for (const auto& [heads, offset] :
       {std::pair{config_.heads, std::size_t{0}}, std::pair{config_.kv_heads, q_width}})
    kernels::rope_rotate(backend_, rope_,
                         {rows.size(), heads, head_dim, kernels::RopePairing::half_split,
                          positions_.data(), qkv_.data() + offset, width});

  // Every key and value of the pass is stored before any query reads: rows of one sequence see
  // those before them.
  attended_.resize(rows.size() * q_width);
  std::vector<kernels::AttentionRow> queries(rows.size());
  kernels::AttentionShape shape = attention_;
  shape.window = config_.windows[index];
  std::size_t keys = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const float* q = qkv_.data() + r * width;
    const auto* pages = rows[r].kv->pages(index);
    const std::size_t position = rows[r].position;
    kernels::kv_store(shape, pages[position / kernels::kBlock], position % kernels::kBlock,
                      q + q_width, q + q_width + kv_width);
    queries[r] = {q, attended_.data() + r * q_width, position, pages, false};
    keys += shape.window == 0 ? position + 1 : std::min(position + 1, shape.window);
  }
  kernels::attention(backend_, shape, queries, pool_for(2 * keys * q_width));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r].range |= queries[r].range;

  branch_.resize(rows.size() * config_.hidden_size);
  multiply(layer.output, attended_.data(), rows.size(), branch_.data());
}

void Model::feed_forward(const FeedForward& weights, const float* x, std::size_t rows, float* out) {
  const std::size_t width = weights.down.cols();
  gate_up_.resize(rows * 2 * width);
  gated_.resize(rows * width);
  multiply(weights.gate_up, x, rows, gate_up_.data());
  kernels::run_tasks(pool_for(rows * width * 8), rows, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* gate = gate_up_.data() + r * 2 * width;
      kernels::swiglu(backend_, gate, gate + width, width, gated_.data() + r * width);
    }
  });
  multiply(weights.down, gated_.data(), rows, out);
}

void Model::forward(std::span<ForwardRow> rows) {
  // 1. Positions, and a table that reaches them. It cannot fail: each position is below
  // context_max, which was checked.
  positions_.clear();
  std::size_t reach = 0;
  for (const auto& row : rows) {
    positions_.push_back(row.position);
    reach = std::max(reach, row.position + 1);
  }
  VERBATIM_CHECK(grow_rope(reach).has_value());

  // 2. The layers: x += attention(norm(x)); x += feed_forward(norm(x)).
  embed(rows);
  const std::size_t values = rows.size() * config_.hidden_size;
  normed_.resize(values);
  for (std::size_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[i];
    normalize(x_.data(), rows.size(), layer.attention_norm, normed_.data());
    attend(i, rows);
    kernels::add_in_place(backend_, x_.data(), branch_.data(), values);
    normalize(x_.data(), rows.size(), layer.feed_forward_norm, normed_.data());
    if (config_.moe_layers[i]) {
      mix_experts(layer, rows, branch_.data());
    } else {
      feed_forward(layer.dense, normed_.data(), rows.size(), branch_.data());
    }
    kernels::add_in_place(backend_, x_.data(), branch_.data(), values);
  }

  // 3. The last norm, for rows that go on to the logits.
  const std::size_t width = config_.hidden_size;
  std::size_t wanted = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) continue;
    std::memmove(x_.data() + wanted * width, x_.data() + r * width, width * sizeof(float));
    ++wanted;
  }
  last_.resize(wanted * width);
  if (wanted > 0) normalize(x_.data(), wanted, weights_.final_norm, last_.data());
}

void Model::logits(std::size_t first, std::size_t count, float* out) {
  const auto& head = config_.tied ? weights_.embedding : weights_.lm_head;
  multiply(head, last_.data() + first * config_.hidden_size, count, out);
}

}  // namespace verbatim::local_engine
