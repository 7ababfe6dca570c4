#include "local_engine/model/config_rope.hpp"

#include "local_engine/files/tensor.hpp"

#include <string>
#include <utility>

namespace verbatim::local_engine {
namespace {

/// Short factors alone: a table that stays the same at every length, within the original context.
Result<void> read_longrope(const Members& members, const Members& kind, RopeConfig& rope) {
  const auto context = members.number("max_position_embeddings");
  if (!context) return context.error();
  const auto inside = kind.number("original_max_position_embeddings", *context);
  if (!inside) return inside.error();
  const auto original = members.number("original_max_position_embeddings", *inside);
  if (!original) return original.error();
  if (*context > *original)
    return unsupported("rope kind longrope beyond its original context, where its table changes,",
                       "set max_position_embeddings to " +
                           std::to_string(static_cast<std::uint64_t>(*original)) +
                           ", and the attention_factor that the longer context gave");
  rope.kind = RopeKind::factors;
  const Json* factors = kind.find("short_factor");
  if (factors == nullptr || !factors->is_array())
    return wrong("rope kind longrope has no array short_factor");
  for (const auto& factor : *factors) {
    if (!factor.is_number()) return wrong("'short_factor' holds something else than numbers");
    rope.factors.push_back(static_cast<float>(factor.get<double>()));
  }
  return {};
}

/// The factor is the one that is given, not the ratio of the two contexts.
Result<void> read_yarn(const Members& members, const Members& kind, RopeConfig& rope) {
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (kind.find(key) != nullptr) return unsupported(std::string("rope kind yarn with ") + key);
  }
  const auto context = members.number("max_position_embeddings");
  if (!context) return context.error();
  if (rope.original_positions == 0) rope.original_positions = *context;
  const auto truncate = kind.boolean("truncate", true);
  if (!truncate) return truncate.error();
  rope.truncate = *truncate;
  return {};
}

Result<RopeKind> rope_kind(const Members& kind) {
  const auto legacy_name = kind.text("type", "default");
  if (!legacy_name) return legacy_name.error();
  const auto name = kind.text("rope_type", *legacy_name);
  if (!name) return name.error();
  if (*name == "default") return RopeKind::plain;
  if (*name == "linear") return RopeKind::linear;
  if (*name == "llama3") return RopeKind::llama3;
  if (*name == "yarn") return RopeKind::yarn;
  if (*name == "longrope" || *name == "su") return RopeKind::factors;
  return unsupported("rope kind " + printable(*name));
}

/// One kind of layers: its theta, and the object that says how it is scaled, or null.
Result<RopeConfig> read_rope(const Members& members, double theta, const Json* scaling) {
  RopeConfig rope;
  rope.theta = theta;
  if (scaling == nullptr) return rope;
  if (!scaling->is_object()) return wrong("'rope_scaling' is not an object");
  const Members kind(*scaling);
  const auto named = rope_kind(kind);
  if (!named) return named.error();
  rope.kind = *named;
  const struct {
    const char* key;
    double* value;
  } numbers[] = {{"rope_theta", &rope.theta},
                 {"factor", &rope.factor},
                 {"low_freq_factor", &rope.low_freq_factor},
                 {"high_freq_factor", &rope.high_freq_factor},
                 {"beta_fast", &rope.beta_fast},
                 {"beta_slow", &rope.beta_slow},
                 {"attention_factor", &rope.attention_factor},
                 {"original_max_position_embeddings", &rope.original_positions}};
  for (const auto& number : numbers) {
    const auto value = kind.number(number.key, *number.value);
    if (!value) return value.error();
    *number.value = *value;
  }
  if (rope.kind == RopeKind::factors) {
    if (const auto done = read_longrope(members, kind, rope); !done) return done.error();
    return rope;
  }
  if (rope.kind != RopeKind::plain && kind.find("factor") == nullptr)
    return wrong("a scaled rope kind has no factor");
  if (rope.kind == RopeKind::yarn) {
    if (const auto done = read_yarn(members, kind, rope); !done) return done.error();
  }
  return rope;
}

}  // namespace

Result<Ropes> read_ropes(const Members& members, double theta_default, bool two_kinds) {
  // Newer files spell it rope_parameters and keep theta in it; Gemma 3's hold one for each kind of
  // layer there.
  const Json* scaling = members.find("rope_parameters");
  if (scaling == nullptr) scaling = members.find("rope_scaling");
  const auto theta = members.number("rope_theta", theta_default);
  if (!theta) return theta.error();
  const Json* local_scaling = nullptr;
  if (two_kinds && scaling != nullptr && scaling->is_object()) {
    const Members both(*scaling);
    local_scaling = both.find("sliding_attention");
    const Json* full = both.find("full_attention");
    if ((local_scaling == nullptr) != (full == nullptr))
      return wrong("'rope_parameters' names one kind of layer alone");
    if (full != nullptr) scaling = full;
  }
  auto rope = read_rope(members, *theta, scaling);
  if (!rope) return rope.error();
  Ropes ropes{std::move(*rope), {}};
  if (!two_kinds) return ropes;
  const auto local_theta = members.number("rope_local_base_freq", 1e4);
  if (!local_theta) return local_theta.error();
  auto local = read_rope(members, *local_theta, local_scaling);
  if (!local) return local.error();
  ropes.local = std::move(*local);
  return ropes;
}

}  // namespace verbatim::local_engine
