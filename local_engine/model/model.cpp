#include "local_engine/model/model.hpp"

#include "local_engine/model/cpu_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace verbatim::local_engine {
namespace {

// Below this many multiply-adds a second thread costs more than it brings.
constexpr std::size_t kThreadedOperationsMin = 1u << 19;
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

}  // namespace

Model::Model(const HostModel& host, kernels::Backend host_backend, kernels::Profile profile,
             KvPool::Allocate allocate)
    : config_(host.config),
      profile_(profile),
      host_backend_(host_backend),
      pool_(host.pool),
      kv_pool_(config_.layers, kernels::kv_page_floats(config_.kv_heads, config_.head_dim),
               std::move(allocate)) {
  attention_.heads = config_.heads;
  attention_.kv_heads = config_.kv_heads;
  attention_.head_dim = config_.head_dim;
  // x^-0.5 in f64: a square root and a division are correctly rounded everywhere, pow is not.
  attention_.scale = static_cast<float>(1.0 / std::sqrt(config_.attention_scalar));
  attention_.softcap = static_cast<float>(config_.attention_softcap);
}

Result<std::unique_ptr<Model>> Model::load(const ModelFiles& files, kernels::Backend backend,
                                           int threads, kernels::Profile profile) {
  const auto host = load_host_model(files, threads);
  if (!host) return host.error();
  return CpuModel::make(*host, backend, profile);
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

Result<void> Model::make_rotations(const std::string& path) {
  std::vector<const RopeConfig*> ropes{&config_.rope};
  if (config_.local_rope) ropes.push_back(&*config_.local_rope);
  for (const RopeConfig* rope : ropes) {
    auto rotation = make_rotation(*rope, config_.rotary_dim);
    if (!rotation)
      return Error{rotation.error().code, rotation.error().what, path, rotation.error().advice};
    rotations_.push_back(std::move(*rotation));
  }
  if (const auto grown = grow_rotations(1); !grown) return grown.error();
  return {};
}

Result<bool> Model::grow_rotations(std::size_t positions) {
  bool grew = false;
  for (Rotation& rotation : rotations_) {
    const std::size_t have = rotation.table.positions();
    if (positions <= have) continue;
    const std::size_t wanted =
        std::min(config_.context_max, std::max({positions, 2 * have, kRopePositionsFirst}));
    auto table = kernels::RopeTable::make(rotation.inverse_frequencies, wanted,
                                          rotation.attention_factor, pool_.get());
    if (!table) return table.error();
    rotation.table = std::move(*table);
    grew = true;
  }
  return grew;
}

bool Model::begin_pass(std::span<const ForwardRow> rows) {
  positions_.clear();
  std::size_t reach = 0;
  watched_ = false;
  for (const auto& row : rows) {
    positions_.push_back(row.position);
    watched_ = watched_ || row.digests != nullptr;
    reach = std::max(reach, row.position + 1);
  }
  const auto grew = grow_rotations(reach);
  VERBATIM_CHECK(grew.has_value());  // each position is below context_max, which was checked
  return *grew;
}

kernels::ThreadPool* Model::pool_for(std::size_t operations) {
  return operations >= kThreadedOperationsMin ? pool_.get() : nullptr;
}

void Model::digest_rows(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
                        std::size_t width, std::size_t stride) {
  const auto wants = [&](const ForwardRow& row) {
    return row.digests != nullptr && row.digests->wants(stage.op);
  };
  // Rows in parallel; what they say is taken in their order, since several may be of one sequence.
  std::vector<Digest8> digests(rows.size());
  kernels::run_tasks(pool_for(rows.size() * width), rows.size(),
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t r = begin; r < end; ++r) {
                         if (wants(rows[r])) digests[r] = values_digest({x + r * stride, width});
                       }
                     });
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (wants(rows[r])) rows[r].digests->add(stage, rows[r].position, digests[r]);
  }
}

}  // namespace verbatim::local_engine
