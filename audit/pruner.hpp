#pragma once
// Pruning, step by step, on the thread that writes the log.

#include "audit/prune.hpp"
#include "audit/writer.hpp"

#include <cstdint>

namespace verbatim::audit {

class Pruner {
 public:
  explicit Pruner(BatchWriter& writer) : writer_(writer) {}

  /// Appends the leaf that decides what goes. Nothing has gone yet when it returns; what a crash leaves then is mended by
  /// finish_interrupted(). `unavailable`: a hold came since the plan was made.
  [[nodiscard]] Result<Appended> begin(const PrunePlan& plan, const LeafDraft& asked,
                                       const Uuid& id, std::int64_t now_us);
  /// Takes the next leaves away, a few hundred, durably. False once there are none.
  [[nodiscard]] Result<bool> step();
  /// Does what a `prune` leaf says and a crash left undone.
  [[nodiscard]] Result<void> finish_interrupted();

 private:
  Result<void> load();

  BatchWriter& writer_;
  Pruned pruned_;
  std::uint64_t next_ = 0;  // leaves before it are gone, or stay
};

}  // namespace verbatim::audit
