#pragma once
// How a config.json says that positions become angles.

#include "local_engine/model/config.hpp"
#include "local_engine/model/config_members.hpp"
#include "schema/error.hpp"

#include <optional>

namespace verbatim::local_engine {

struct Ropes {
  RopeConfig rope;
  std::optional<RopeConfig> local;  ///< of layers with a window
};

/// rope_theta, rope_scaling or rope_parameters, and, for models with `two_kinds` of layers,
/// rope_local_base_freq. `unsupported` names a kind whose table depends on the length reached.
[[nodiscard]] Result<Ropes> read_ropes(const Members& members, double theta_default,
                                       bool two_kinds);

}  // namespace verbatim::local_engine
