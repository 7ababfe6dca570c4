#pragma once
// What signs tree heads, and the high-water mark that keeps it from ever signing two histories.

#include "audit/checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace verbatim::audit {

/// Signs one log's checkpoints. One thread at a time.
class Signer {
 public:
  virtual ~Signer() = default;
  [[nodiscard]] virtual const VerifierKey& key() const = 0;
  /// A signed note. `tampered` if the tree is smaller than the last one that committed() named, or has
  /// another root at the same size: signing it would fork the log.
  [[nodiscard]] virtual Result<std::string> sign(const Checkpoint& checkpoint) = 0;
  /// The note is in the log's store for good: remember it. A note that was signed but not committed never leaves
  /// the process, and another may be signed in its place.
  virtual Result<void> committed(const Checkpoint& checkpoint, const std::string& note) = 0;
  /// The last that was remembered. Size 0 for a log without leaves.
  [[nodiscard]] virtual const Checkpoint& last() const = 0;
};

/// Key in `log.key` (mode 0600), memory in `high-water`, in the data folder.
///
/// `high-water` has two slots of 4,096 bytes, each a signed note filled up with newlines, written in turn and in
/// place: a torn write costs one slot, and the other is one commit older. It is written after each commit, and
/// synced when the signer goes: after a power loss it may be behind the log, never ahead.
class FileSigner final : public Signer {
 public:
  /// Makes a key and an empty log's mark. Files that a crash left from an earlier attempt are taken over.
  [[nodiscard]] static Result<std::unique_ptr<FileSigner>> create(
      const std::filesystem::path& data_dir, const std::string& origin);
  /// `not_found` (no key), `tampered` (no mark, or none that this key signed), `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<FileSigner>> open(
      const std::filesystem::path& data_dir);
  ~FileSigner() override;

  [[nodiscard]] const VerifierKey& key() const override { return verifier_; }
  [[nodiscard]] Result<std::string> sign(const Checkpoint& checkpoint) override;
  Result<void> committed(const Checkpoint& checkpoint, const std::string& note) override;
  [[nodiscard]] const Checkpoint& last() const override { return last_; }

 private:
  FileSigner(NoteSigningKey key, std::filesystem::path mark_path);
  Result<void> load_mark();

  NoteSigningKey key_;
  VerifierKey verifier_;
  std::filesystem::path mark_path_;
  int mark_fd_ = -1;
  std::size_t next_slot_ = 0;
  Checkpoint last_;
};

/// The log's private key, for other statements than tree heads. `not_found`, `tampered`, `storage_failed`.
[[nodiscard]] Result<NoteSigningKey> load_log_key(const std::filesystem::path& data_dir);

/// The mark as a reader sees it.
struct HighWater {
  bool present = false;            ///< there is such a file
  bool damaged = false;            ///< and no slot holds a note
  std::vector<std::string> notes;  ///< what each slot holds, unverified; "" for nothing
  /// The larger tree of those that can be read, without looking at signatures.
  [[nodiscard]] std::uint64_t claimed_size() const;
};
[[nodiscard]] Result<HighWater> read_high_water(const std::filesystem::path& data_dir);

/// Of the marks that `key` signed, the one with the larger tree. `tampered` if it signed none.
[[nodiscard]] Result<Checkpoint> newest_mark(const HighWater& mark, const VerifierKey& key);

}  // namespace verbatim::audit
