#pragma once
// The keys that have signed one log, each announced by the one before it.
//
// A `key_rotated` leaf (schema/leaf.md) holds a note that both keys signed:
//
//   verbatim/key-rotation/v1
//   <origin>
//   <index of that leaf, decimal>
//   <vkey of the key so far>
//   <vkey of the new key>
//
// Every tree that holds the leaf is signed by the new key. The old one signs beside it until a `key_retired` leaf ends
// the overlap, so that verifiers who only know the old key have time to learn of the new one.

#include "audit/checkpoint.hpp"
#include "schema/canonical_json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

class Queries;

/// What a rotation's note says.
struct KeyRotation {
  std::string origin;
  std::uint64_t index = 0;  ///< of the leaf
  VerifierKey from, to;
};
[[nodiscard]] std::string rotation_text(const KeyRotation& rotation);
/// `invalid_input`: not such a note. `tampered`: one of the two keys did not sign it.
[[nodiscard]] Result<KeyRotation> open_rotation(std::string_view note);

/// Copyable. Begins with a key that is trusted, and grows by what that key vouches for.
class KeyChain {
 public:
  struct Link {
    VerifierKey key;
    std::uint64_t from = 0;              ///< smallest tree that it may sign
    std::optional<std::uint64_t> until;  ///< largest; absent while it signs
    std::string note;                    ///< that announced it; "" for the first
  };

  /// A key alone is a chain of one: not explicit, so that it passes for one.
  KeyChain(VerifierKey first) { links_.push_back({std::move(first), 0, {}, ""}); }

  /// Takes in a leaf of type `key_rotated` or `key_retired`; others change nothing. `tampered`, saying why, if it does
  /// not go on from the keys so far: the chain is as it was.
  Result<void> add(std::uint64_t index, const Json& leaf);
  /// Takes in a rotation's note without its leaf. Errors as add().
  Result<void> rotate(std::string_view note);

  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const VerifierKey& first() const { return links_.front().key; }
  [[nodiscard]] const VerifierKey& newest() const { return links_.back().key; }
  [[nodiscard]] const std::string& origin() const { return first().name; }
  [[nodiscard]] bool contains(const VerifierKey& key) const;
  [[nodiscard]] std::vector<VerifierKey> all() const;  ///< oldest first
  /// The keys that sign from now on, newest first.
  [[nodiscard]] std::vector<VerifierKey> signing() const;
  /// The keys that may sign a tree of this size, newest first: the first of them must.
  [[nodiscard]] std::vector<VerifierKey> at(std::uint64_t size) const;

 private:
  Result<void> retire(std::uint64_t index, const std::string& vkey);

  std::vector<Link> links_;  // oldest first
};

/// Opens a checkpoint by the newest of the keys that may sign a tree of its size. `not_found`: it did not. `tampered`: a
/// signature by one of them does not match. `invalid_input`: no checkpoint.
[[nodiscard]] Result<Checkpoint> open_checkpoint(std::string_view note, const KeyChain& keys);

/// The chain that the log's leaves below `size` tell of, from the key that leaf 0 names. `tampered` if leaf 0 names none,
/// or a leaf does not fit.
[[nodiscard]] Result<KeyChain> read_key_chain(Queries& queries, std::uint64_t size);

}  // namespace verbatim::audit
