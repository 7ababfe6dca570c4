#include "audit/shared_records.hpp"

namespace verbatim::audit {

std::string SharedRecords::origin() const {
  const std::lock_guard lock(mutex_);
  return records_.origin();
}

std::string SharedRecords::vkey() const {
  const std::lock_guard lock(mutex_);
  return records_.vkey();
}

Result<KeyChain> SharedRecords::keys() {
  const std::lock_guard lock(mutex_);
  return records_.keys();
}

Result<std::string> SharedRecords::checkpoint() {
  const std::lock_guard lock(mutex_);
  return records_.checkpoint();
}

Result<StoredLeaf> SharedRecords::leaf(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  return records_.leaf(index);
}

Result<std::vector<StoredLeaf>> SharedRecords::leaves_of(const Uuid& id) {
  const std::lock_guard lock(mutex_);
  return records_.leaves_of(id);
}

Result<std::vector<RecordSummary>> SharedRecords::list(const RecordFilter& filter) {
  const std::lock_guard lock(mutex_);
  return records_.list(filter);
}

Result<std::vector<RecordPlace>> SharedRecords::places(const RecordFilter& filter) {
  const std::lock_guard lock(mutex_);
  return records_.places(filter);
}

Result<OpenedContent> SharedRecords::content(std::uint64_t index, std::string_view field) {
  const std::lock_guard lock(mutex_);
  return records_.content(index, field);
}

}  // namespace verbatim::audit
