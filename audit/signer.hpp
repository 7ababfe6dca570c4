#pragma once
// What signs tree heads, and the high-water mark that keeps it from ever signing two histories.

#include "audit/key_chain.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::audit {

/// Signs one log's checkpoints. One thread at a time.
class Signer {
 public:
  virtual ~Signer() = default;
  /// The newest of its keys.
  [[nodiscard]] virtual const VerifierKey& key() const = 0;
  /// A note that all of its keys signed. `tampered` if the tree is smaller than the last one that committed() named, or has
  /// another root at the same size: signing it would fork the log.
  [[nodiscard]] virtual Result<std::string> sign(const Checkpoint& checkpoint) = 0;
  /// The note is in the log's store for good: remember it. A note that was signed but not committed never leaves
  /// the process, and another may be signed in its place.
  virtual Result<void> committed(const Checkpoint& checkpoint, const std::string& note) = 0;
  /// The last that was remembered. Size 0 for a log without leaves.
  [[nodiscard]] virtual const Checkpoint& last() const = 0;

  /// Makes the key that is to follow key(). Once this returns it survives power loss; it signs no checkpoint yet.
  [[nodiscard]] virtual Result<VerifierKey> prepare_next() = 0;
  /// The rotation's note by key() and the key prepared.
  [[nodiscard]] virtual std::string sign_rotation(const KeyRotation& rotation) = 0;
  /// From here on the key prepared is key(), and those so far sign beside it. Not durable.
  virtual void use_next() = 0;
  /// Back to before use_next().
  virtual void drop_next() = 0;
  /// Signs with exactly these from here on, newest first, and destroys others: durable when this returns. A key that
  /// prepare_next() made is among those that it can have. `tampered` if it lacks the newest.
  virtual Result<void> keep(const std::vector<VerifierKey>& keys) = 0;
};

/// Keys in `log.key` (mode 0600, one a line, the newest first), memory in `high-water`, in the data folder. The key that a
/// rotation is about to introduce waits in `log.key.next`: a crash leaves it there, and keep() takes it or removes it.
///
/// `high-water` has two slots of 4,096 bytes, each a signed note filled up with newlines, written in turn and in
/// place: a torn write costs one slot, and the other is one commit older. It is written after each commit, and
/// synced when the signer goes: after a power loss it may be behind the log, never ahead.
class FileSigner final : public Signer {
 public:
  /// Makes a key and an empty log's mark. Files that a crash left from an earlier attempt are taken over.
  [[nodiscard]] static Result<std::unique_ptr<FileSigner>> create(
      const std::filesystem::path& data_dir, const std::string& origin);
  /// `not_found` (no key), `tampered` (no mark, or none that these keys signed), `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<FileSigner>> open(
      const std::filesystem::path& data_dir);
  ~FileSigner() override;

  [[nodiscard]] const VerifierKey& key() const override { return verifiers_.front(); }
  [[nodiscard]] Result<std::string> sign(const Checkpoint& checkpoint) override;
  Result<void> committed(const Checkpoint& checkpoint, const std::string& note) override;
  [[nodiscard]] const Checkpoint& last() const override { return last_; }
  [[nodiscard]] Result<VerifierKey> prepare_next() override;
  [[nodiscard]] std::string sign_rotation(const KeyRotation& rotation) override;
  void use_next() override;
  void drop_next() override;
  Result<void> keep(const std::vector<VerifierKey>& keys) override;

 private:
  FileSigner(std::vector<NoteSigningKey> keys, std::filesystem::path data_dir);
  void sign_with(std::vector<NoteSigningKey> keys);

  std::vector<NoteSigningKey> keys_;    // newest first
  std::vector<VerifierKey> verifiers_;  // of the same
  std::optional<NoteSigningKey> next_;  // prepared
  std::filesystem::path data_dir_;
  std::filesystem::path mark_path_;
  int mark_fd_ = -1;
  std::size_t next_slot_ = 0;
  Checkpoint last_;
};

/// The newest of the log's private keys, for other statements than tree heads. `not_found`, `tampered`, `storage_failed`.
[[nodiscard]] Result<NoteSigningKey> load_log_key(const std::filesystem::path& data_dir);
/// That one of them. Also `not_found`, if it no longer signs.
[[nodiscard]] Result<NoteSigningKey> load_log_key(const std::filesystem::path& data_dir,
                                                  const VerifierKey& key);

/// The mark as a reader sees it.
struct HighWater {
  bool present = false;            ///< there is such a file
  bool damaged = false;            ///< and no slot holds a note
  std::vector<std::string> notes;  ///< what each slot holds, unverified; "" for nothing
  /// The larger tree of those that can be read, without looking at signatures.
  [[nodiscard]] std::uint64_t claimed_size() const;
};
[[nodiscard]] Result<HighWater> read_high_water(const std::filesystem::path& data_dir);

/// Of the marks that one of the keys signed, the one with the larger tree. `tampered` if they signed none.
[[nodiscard]] Result<Checkpoint> newest_mark(const HighWater& mark,
                                             std::span<const VerifierKey> keys);

}  // namespace verbatim::audit
