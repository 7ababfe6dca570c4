#pragma once
// Erasing, step by step, on the thread that writes the log.

#include "audit/erasure.hpp"
#include "audit/keys.hpp"
#include "audit/writer.hpp"
#include "schema/clock.hpp"

#include <cstdint>

namespace verbatim::audit {

/// Each step is one batch of its own: the leaf that names the contents, and their going. Used on the writer's thread
/// alone, so that no hold and no content can come between a check and what follows from it.
class Eraser {
 public:
  Eraser(BatchWriter& writer, Keys& keys, UuidGenerator& ids, const Clock& clock)
      : writer_(writer), keys_(keys), ids_(ids), clock_(clock) {}

  /// Erases a record's contents. Errors: those of check_holds(), check_retention(), contents_of_record() and
  /// BatchWriter::write().
  Result<void> erase_record(const EraseRequest& request, ErasureReport& report);
  /// Erases these contents of a subject.
  Result<void> erase_some(const EraseRequest& request, const std::vector<std::uint64_t>& ids,
                          ErasureReport& report);
  /// Erases what came under the subject's key since content `from`, and destroys the key. False if that is too much
  /// for one leaf: nothing was done then.
  Result<bool> destroy_key(const EraseRequest& request, std::int64_t kek, std::uint64_t from,
                           ErasureReport& report);
  /// Destroys keys whose erasure leaf is durable: a crash may have come between.
  Result<void> finish_interrupted();

 private:
  /// `unavailable` if one of the records must still be kept, and nobody gave leave to erase it.
  Result<void> append(const EraseRequest& request, const ErasureStep& step,
                      std::optional<std::int64_t> kek, ErasureReport& report);

  BatchWriter& writer_;
  Keys& keys_;
  UuidGenerator& ids_;
  const Clock& clock_;
};

}  // namespace verbatim::audit
