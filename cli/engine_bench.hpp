#pragma once
// verbatim engine bench: what the local engine does in a second on this machine.

#include "cli/command.hpp"
#include "local_engine/engine.hpp"

#include <cstddef>

namespace verbatim::cli {

struct BenchFlags {
  std::size_t prompt_tokens = 256, output_tokens = 128, rounds = 3;
  void add(CLI::App& command);
};

/// Each round generates an answer to a random prompt and scores it; the first is not counted, since the system then
/// gives the memory that later ones use again. Prints medians. kBadFinding when score has not generation's digest.
[[nodiscard]] int run_bench(const Context& context, local_engine::Engine& engine,
                            const BenchFlags& wanted);

}  // namespace verbatim::cli
