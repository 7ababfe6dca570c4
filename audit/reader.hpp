#pragma once
// The reading end of the log: any number, in any process, while it is written or not. Changes nothing.

#include "audit/erasure.hpp"
#include "audit/key_chain.hpp"
#include "audit/log.hpp"
#include "audit/tiles.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::audit {

/// A leaf as stored.
struct StoredLeaf {
  std::uint64_t index = 0;
  std::string bytes;  ///< canonical JSON: what was hashed
  Json json;          ///< the same, parsed
};

/// One exchange, or any other leaf, as `log list` shows it.
struct RecordSummary {
  Uuid id;
  std::uint64_t index = 0;                      ///< of the request leaf (or of the leaf itself)
  std::optional<std::uint64_t> response_index;  ///< absent while the exchange is open
  std::int64_t time_us = 0;
  std::string type, status, model, route, cache, tenant;
};

/// All conditions must hold. Times are Unix microseconds.
struct RecordFilter {
  std::optional<std::int64_t> since_us, until_us;
  std::string model, status;   ///< "" is any
  bool exchanges_only = true;  ///< false: leaves of every type
  std::uint64_t limit = 0;     ///< 0 is no limit
  bool newest_first = false;

  /// Sets since_us and until_us from RFC 3339 times or dates; "" leaves one open. `invalid_input`.
  [[nodiscard]] Result<void> set_times(std::string_view since, std::string_view until);
};

/// One content of a leaf, opened.
struct OpenedContent {
  std::string field;
  std::array<std::uint8_t, 32> salt{};
  std::string bytes;
};

/// A snapshot-free reader: each call sees the newest committed state. One thread at a time per object.
class LogReader {
 public:
  /// `not_found` (no log there), `newer_version`, `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<LogReader>> open(
      const std::filesystem::path& data_dir);
  ~LogReader();

  [[nodiscard]] std::string origin() const;
  [[nodiscard]] std::string vkey() const;  ///< the key that signs, as of the last read
  /// All keys that have signed the log.
  [[nodiscard]] Result<KeyChain> keys();
  [[nodiscard]] std::filesystem::path data_dir() const;
  /// The newest signed checkpoint, a signed note; with the cosignatures that are kept for it.
  [[nodiscard]] Result<std::string> checkpoint();
  /// The newest checkpoint exactly as the log signed it.
  [[nodiscard]] Result<std::string> signed_checkpoint();
  [[nodiscard]] Result<std::uint64_t> size();
  [[nodiscard]] Result<StoredLeaf> leaf(std::uint64_t index);
  /// The leaves of one record: request and response, or the one leaf. `not_found` if there is none.
  [[nodiscard]] Result<std::vector<StoredLeaf>> leaves_of(const Uuid& id);
  [[nodiscard]] Result<std::vector<RecordSummary>> list(const RecordFilter& filter);
  /// Decrypts, decompresses and checks against the commitment. `not_found`, `erased`, `tampered`.
  [[nodiscard]] Result<OpenedContent> content(std::uint64_t index, std::string_view field);
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
