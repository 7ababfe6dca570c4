#pragma once
// Records that several threads read.

#include "audit/records.hpp"

#include <mutex>

namespace verbatim::audit {

/// Reads from another source, which is borrowed: one thread at a time, the others wait. Any thread may call.
class SharedRecords final : public RecordSource {
 public:
  explicit SharedRecords(RecordSource& records) : records_(records) {}

  [[nodiscard]] std::string origin() const override;
  [[nodiscard]] std::string vkey() const override;
  [[nodiscard]] Result<KeyChain> keys() override;
  [[nodiscard]] Result<std::string> checkpoint() override;
  [[nodiscard]] Result<StoredLeaf> leaf(std::uint64_t index) override;
  [[nodiscard]] Result<std::vector<StoredLeaf>> leaves_of(const Uuid& id) override;
  [[nodiscard]] Result<std::vector<RecordSummary>> list(const RecordFilter& filter) override;
  [[nodiscard]] Result<std::vector<RecordPlace>> places(const RecordFilter& filter) override;
  [[nodiscard]] Result<OpenedContent> content(std::uint64_t index, std::string_view field) override;

 private:
  RecordSource& records_;
  mutable std::mutex mutex_;
};

}  // namespace verbatim::audit
