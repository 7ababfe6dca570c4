#pragma once
// What signs tree heads, and the high-water mark that keeps it from ever signing two histories.

#include "audit/key_chain.hpp"
#include "audit/key_file.hpp"

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
  /// True if the private half of that one is in a token.
  [[nodiscard]] virtual bool in_token() const = 0;
  /// A note that all of its keys signed. `tampered` if the tree is smaller than the last one that committed() named, or has
  /// another root at the same size: signing it would fork the log. `storage_failed` if a key does not sign now: nothing
  /// was changed, and a later call may succeed.
  [[nodiscard]] virtual Result<std::string> sign(const Checkpoint& checkpoint) = 0;
  /// The note is in the log's store for good: remember it. A note that was signed but not committed never leaves
  /// the process, and another may be signed in its place.
  virtual Result<void> committed(const Checkpoint& checkpoint, const std::string& note) = 0;
  /// The last that was remembered. Size 0 for a log without leaves.
  [[nodiscard]] virtual const Checkpoint& last() const = 0;

  /// Makes the key that is to follow key(), or finds it at `place` (new_key() in key_file.hpp). Once this returns it
  /// survives power loss; it signs no checkpoint yet. Errors: new_key()'s; `invalid_input` if it is one of `used`.
  [[nodiscard]] virtual Result<VerifierKey> prepare_next(const std::string& place,
                                                         const std::vector<VerifierKey>& used) = 0;
  /// The rotation's note by key() and the key prepared. Errors as sign()'s.
  [[nodiscard]] virtual Result<std::string> sign_rotation(const KeyRotation& rotation) = 0;
  /// From here on the key prepared is key(), and those so far sign beside it. Not durable.
  virtual void use_next() = 0;
  /// Back to before use_next().
  virtual void drop_next() = 0;
  /// Signs with exactly these from here on, newest first, and destroys others: durable when this returns. What is in a token
  /// stays there. A key that prepare_next() made is among those that it can have. `tampered` if it lacks the newest.
  virtual Result<void> keep(const std::vector<VerifierKey>& keys) = 0;
};

/// Keys as `log.key` names them (audit/key_file.hpp), memory in `high-water`, in the data folder. The key that a rotation is
/// about to introduce waits in `log.key.next`: a crash leaves it there, and keep() takes it or removes it.
///
/// `high-water` has two slots of 4,096 bytes, each a signed note filled up with newlines, written in turn and in
/// place: a torn write costs one slot, and the other is one commit older. It is written after each commit, and
/// synced when the signer goes: after a power loss it may be behind the log, never ahead.
class FileSigner final : public Signer {
 public:
  /// Makes a key, or finds it at `place` (new_key() in key_file.hpp, with its errors), and an empty log's mark. Files that a
  /// crash left from an earlier attempt are taken over.
  [[nodiscard]] static Result<std::unique_ptr<FileSigner>> create(
      const std::filesystem::path& data_dir, const std::string& origin,
      const std::string& place = "");
  /// `not_found` (no key), `tampered` (no mark, or none that these keys signed), `storage_failed`, and open_key()'s.
  [[nodiscard]] static Result<std::unique_ptr<FileSigner>> open(
      const std::filesystem::path& data_dir);
  ~FileSigner() override;

  [[nodiscard]] const VerifierKey& key() const override { return verifiers_.front(); }
  [[nodiscard]] bool in_token() const override { return keys_.front()->in_token(); }
  [[nodiscard]] Result<std::string> sign(const Checkpoint& checkpoint) override;
  Result<void> committed(const Checkpoint& checkpoint, const std::string& note) override;
  [[nodiscard]] const Checkpoint& last() const override { return last_; }
  [[nodiscard]] Result<VerifierKey> prepare_next(const std::string& place,
                                                 const std::vector<VerifierKey>& used) override;
  [[nodiscard]] Result<std::string> sign_rotation(const KeyRotation& rotation) override;
  void use_next() override;
  void drop_next() override;
  Result<void> keep(const std::vector<VerifierKey>& keys) override;

 private:
  FileSigner(LogKeys keys, std::filesystem::path data_dir);
  void sign_with(LogKeys keys);
  [[nodiscard]] Result<std::shared_ptr<LogKey>> opened(const KeyLine& line) const;

  LogKeys keys_;
  std::vector<VerifierKey> verifiers_;  // of the same
  std::shared_ptr<LogKey> next_;        // prepared
  std::filesystem::path data_dir_;
  std::filesystem::path mark_path_;
  int mark_fd_ = -1;
  std::size_t next_slot_ = 0;
  Checkpoint last_;
};

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
