#pragma once
// A short test of an engine before it judges anybody: does it keep its promise on this machine, now?

#include "local_engine/engine.hpp"

#include <string>

namespace verbatim::replay {

/// Some prompts from a fixed seed, greedy and seeded: each alone, among the others, and by score(). All must give the same
/// digests and tokens, and tell one token from another: "", or what is wrong in words. Errors are the engine's own. `verbatim engine selfcheck` is
/// longer, and compares backends too.
[[nodiscard]] Result<std::string> check_engine(local_engine::Engine& engine);

}  // namespace verbatim::replay
