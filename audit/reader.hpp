#pragma once
// The reading end of the log: any number, in any process, while it is written or not. Changes nothing.

#include "audit/erasure.hpp"
#include "audit/log.hpp"
#include "audit/records.hpp"
#include "audit/tiles.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::audit {

/// A snapshot-free reader: each call sees the newest committed state. One thread at a time per object.
class LogReader final : public RecordSource {
 public:
  /// `not_found` (no log there), `newer_version`, `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<LogReader>> open(
      const std::filesystem::path& data_dir);
  ~LogReader() override;

  [[nodiscard]] std::string origin() const override;
  [[nodiscard]] std::string vkey() const override;
  [[nodiscard]] Result<KeyChain> keys() override;
  [[nodiscard]] std::filesystem::path data_dir() const;
  /// The newest, with the cosignatures that are kept for it.
  [[nodiscard]] Result<std::string> checkpoint() override;
  /// The newest checkpoint exactly as the log signed it.
  [[nodiscard]] Result<std::string> signed_checkpoint();
  [[nodiscard]] Result<std::uint64_t> size();
  [[nodiscard]] Result<StoredLeaf> leaf(std::uint64_t index) override;
  [[nodiscard]] Result<std::vector<StoredLeaf>> leaves_of(const Uuid& id) override;
  [[nodiscard]] Result<std::vector<RecordSummary>> list(const RecordFilter& filter) override;
  [[nodiscard]] Result<std::vector<RecordPlace>> places(const RecordFilter& filter) override;
  /// Decrypts and decompresses.
  [[nodiscard]] Result<OpenedContent> content(std::uint64_t index, std::string_view field) override;
  /// Legal holds in force, oldest first.
  [[nodiscard]] Result<std::vector<Hold>> holds();
  /// RFC 6962 inclusion proof of a leaf in the tree of `tree_size` leaves.
  [[nodiscard]] Result<std::vector<Digest>> inclusion_proof(std::uint64_t index,
                                                            std::uint64_t tree_size);
  /// The bytes of a tile (C2SP tlog-tiles): `width` hashes of 32 bytes. `not_found` beyond the tree.
  [[nodiscard]] Result<std::string> tile(const TileName& name);
  /// The bytes of an entry bundle of `width` leaves. `not_found` beyond the tree.
  [[nodiscard]] Result<std::string> entries(std::uint64_t index, std::uint64_t width);
  /// A c2sp tlog-proof: leaf (in the `extra` line), proof and newest checkpoint in one text. If the key was changed,
  /// the notes that say so follow the leaf.
  /// `note`: a checkpoint of this log that covers the leaf; "" is the newest. `token`: a time stamp of that very note.
  [[nodiscard]] Result<std::string> receipt(std::uint64_t index, const std::string& note = "",
                                            const std::string& token = "");
  /// The `timestamp` leaves, oldest first, until the callback says false.
  [[nodiscard]] Result<void> timestamps(const std::function<bool(const StoredLeaf& leaf)>& each);
  /// The newest of the log's checkpoints whose note, as it was signed, has this SHA-256. `not_found`.
  [[nodiscard]] Result<std::string> checkpoint_with(const Digest& digest);

 private:
  class Impl;
  explicit LogReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim::audit
