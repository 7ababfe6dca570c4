#pragma once
// Which witnesses must have cosigned a checkpoint (C2SP tlog-policy), and cosignatures (tlog-cosignature v1).
//
//   log <vkey> [url]
//   witness <name> <vkey> [url]
//   group <name> all|any|<k> <member> ...        members: witnesses and groups named before
//   quorum <name>|none                           exactly once

#include "audit/note.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

/// What a cosigner signs: "cosignature/v1", the time, and the checkpoint's text.
[[nodiscard]] std::string cosignature_message(std::uint64_t unix_seconds, std::string_view text);
/// A signature line of type 0x04.
[[nodiscard]] std::string cosign(std::string_view text, std::string_view name,
                                 const Ed25519PrivateKey& key, std::uint64_t unix_seconds);
/// The time of a cosignature over a checkpoint's text. Nothing if it is not one of `key`'s.
[[nodiscard]] std::optional<std::uint64_t> verify_cosignature(const NoteSignature& signature,
                                                              std::string_view text,
                                                              const VerifierKey& key);

class Policy {
 public:
  /// `invalid_input`, naming the line.
  [[nodiscard]] static Result<Policy> parse(std::string_view text);

  [[nodiscard]] const std::vector<VerifierKey>& logs() const { return logs_; }
  struct Witness {
    std::string name;
    VerifierKey key;
    std::string url;  ///< to which add-checkpoint is posted; "" if none is given
  };
  /// In the order in which the policy names them.
  [[nodiscard]] const std::vector<Witness>& witnesses() const { return witnesses_; }
  /// True if enough witnesses cosigned the note. It says nothing of the log's own signature.
  [[nodiscard]] bool met_by(const Note& note) const;

 private:
  struct Group {
    std::size_t needed = 0;
    std::vector<std::string> members;
  };
  Result<void> parse_line(const std::vector<std::string_view>& words);
  Result<void> parse_group(const std::vector<std::string_view>& words);
  [[nodiscard]] bool is_named(const std::string& name) const;
  [[nodiscard]] bool satisfied(const std::string& name, const std::set<std::string>& signers) const;

  std::vector<VerifierKey> logs_;
  std::vector<Witness> witnesses_;
  std::map<std::string, Group> groups_;
  std::optional<std::string> quorum_;
};

}  // namespace verbatim::audit
