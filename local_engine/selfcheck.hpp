#pragma once
// Proves on this machine, with this model, what the numerics profile promises.

#include "local_engine/engine.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// One promise, and how often it was put to the test.
struct SelfcheckFinding {
  /// backends_agree (where there are two), batch_invariance, decode_equals_prefill, chunking; and tells_tokens_apart:
  /// weights that are none give every token the same logit, and keep all promises.
  std::string check;
  bool passed = true;
  std::size_t cases = 0;
  std::string first_difference;  ///< why it failed: what differed first, and where. "" if it passed
};

struct SelfcheckReport {
  bool passed = true;
  std::vector<std::string> backends;  ///< compared with each other
  std::vector<SelfcheckFinding> findings;
  std::size_t tokens = 0;  ///< outputs compared
  double seconds = 0;
};

/// Random prompts, greedy and seeded, until `seconds` have passed and at least one round is done. A
/// fixed seed: the same time finds the same things. Errors as Engine::load(); a difference is a
/// finding, not an error, and so is a check that had nothing to compare, since the engine refused every request.
/// `with_cuda`: the device too, which then is the one that the promises are put to.
[[nodiscard]] Result<SelfcheckReport> selfcheck(const std::filesystem::path& path, double seconds,
                                                bool with_cuda = false);

/// The same with engines made by `make`, one for each of these backends. For tests that hand in a
/// wrong engine.
using EngineFactory = std::function<Result<std::shared_ptr<Engine>>(const EngineOptions&)>;
[[nodiscard]] Result<SelfcheckReport> selfcheck(const EngineFactory& make,
                                                const std::vector<std::string>& backends,
                                                double seconds);

}  // namespace verbatim::local_engine
