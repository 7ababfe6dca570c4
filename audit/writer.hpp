#pragma once
// One batch of drafts, made durable: the log's only way to write.

#include "audit/aead.hpp"
#include "audit/keys.hpp"
#include "audit/leaf.hpp"
#include "audit/merkle.hpp"
#include "audit/recovery.hpp"
#include "audit/signer.hpp"
#include "audit/store.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace verbatim::audit {

/// A draft in the queue.
struct QueuedDraft {
  LeafDraft draft;
  Uuid id;
  std::int64_t time_us = 0;
  std::size_t bytes = 0;  ///< of its contents, for the queue's limit
  bool erases = false;    ///< an `erasure` leaf
  AppendDone done;
  /// The draft, prepared: by write(), unless somebody did before. The draft is spent then.
  std::optional<Result<PreparedLeaf>> prepared;

  void prepare(Packer& packer) {
    if (!prepared) prepared = prepare_leaf(std::move(draft), id, time_us, packer);
  }
};

/// Not thread-safe: belongs to the log's writer thread.
class BatchWriter {
 public:
  BatchWriter(std::unique_ptr<Store> store, std::unique_ptr<Signer> signer, Keys& keys,
              Recovered state);

  /// A response must name an open request of its record: else it is `invalid_input`.
  /// Appends all drafts that are well formed, in order, in one transaction with one checkpoint. One result for each
  /// draft. On `storage_failed` (the disk refuses, or the key does not sign) the log is as it was; on `in_doubt` it may or
  /// may not hold the batch, and this object must not be used any more.
  [[nodiscard]] std::vector<Result<Appended>> write(std::span<QueuedDraft> batch,
                                                    std::int64_t now_us);

  /// One leaf as a batch of its own.
  [[nodiscard]] Result<Appended> write(LeafDraft draft, const Uuid& id, std::int64_t now_us);

  [[nodiscard]] std::uint64_t size() const { return tree_.size(); }
  [[nodiscard]] Store& store() { return *store_; }
  [[nodiscard]] Signer& signer() { return *signer_; }
  /// True after a failure that leaves no way but to restart.
  [[nodiscard]] bool stopped() const { return stopped_; }
  void stop() { stopped_ = true; }

 private:
  Result<void> insert(CompactRange& tree, const PreparedLeaf& leaf, std::int64_t now_us);
  Result<void> insert_contents(std::uint64_t index, const PreparedLeaf& leaf);
  Result<void> commit(std::span<const PreparedLeaf> leaves, std::int64_t now_us);
  Result<void> insert_all(std::span<const PreparedLeaf> leaves, CompactRange& tree,
                          std::int64_t now_us);
  Result<void> open_or_close(std::uint64_t index, const PreparedLeaf& leaf);
  void undo_open();

  std::unique_ptr<Store> store_;
  std::unique_ptr<Signer> signer_;
  Keys& keys_;
  CompactRange tree_;
  std::map<std::uint64_t, Uuid> open_;  // requests without response, those of the current batch too
  std::vector<OpenRequest> closed_;     // by the current batch
  Aead aead_;
  Packer packer_;
  bool stopped_ = false;
};

}  // namespace verbatim::audit
