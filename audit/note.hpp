#pragma once
// Signed notes (C2SP signed-note v1.0.0; the same as golang.org/x/mod/sumdb/note).
//
//   <text, ending in a newline>
//   <empty line>
//   — <name> <base64 of key id (4 bytes) and signature>

#include "audit/ed25519.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

/// Signature types: the byte before a public key in a vkey.
inline constexpr std::uint8_t kNoteEd25519 = 0x01;
inline constexpr std::uint8_t kNoteCosignature = 0x04;  ///< Ed25519 cosignature/v1 with a time

inline constexpr std::size_t kNoteBytesMax = 1 << 20;
inline constexpr std::size_t kNoteSignaturesMax = 100;

/// A key that verifies notes: `name+hex id+base64(type || key)`.
struct VerifierKey {
  std::string name;
  std::uint8_t type = kNoteEd25519;
  Ed25519PublicKey key{};
  [[nodiscard]] std::uint32_t id() const;
  [[nodiscard]] std::string str() const;
  friend bool operator==(const VerifierKey&, const VerifierKey&) = default;
};

/// First 4 bytes, big-endian, of SHA-256(name || newline || type || key).
[[nodiscard]] std::uint32_t note_key_id(std::string_view name, std::uint8_t type, Bytes key);

/// True if `name` can name a key: not empty, UTF-8, without '+', white space and control characters.
[[nodiscard]] bool is_key_name(std::string_view name);

/// `invalid_input` for a bad form or id, `unsupported` for another type than Ed25519's two.
[[nodiscard]] Result<VerifierKey> parse_vkey(std::string_view text);

/// A key that signs notes: `PRIVATE+KEY+name+hex id+base64(0x01 || seed)`.
struct NoteSigningKey {
  std::string name;
  Ed25519PrivateKey key;
  [[nodiscard]] VerifierKey verifier() const { return {name, kNoteEd25519, key.public_key()}; }
};
[[nodiscard]] Result<NoteSigningKey> parse_skey(std::string_view text);
[[nodiscard]] std::string format_skey(std::string_view name, const Ed25519Seed& seed);

struct NoteSignature {
  std::string name;
  std::uint32_t key_id = 0;
  ByteVector bytes;  ///< after the key id
};

/// A note taken apart. Nothing of it is verified.
struct Note {
  std::string text;  ///< with its last newline: what is signed
  std::vector<NoteSignature> signatures;
};

/// `invalid_input`: not UTF-8, control characters, no signature, more than 100, a malformed line.
[[nodiscard]] Result<Note> parse_note(std::string_view bytes);

/// A note whose text at least one of the keys signed.
struct OpenedNote {
  std::string text;
  std::vector<NoteSignature> verified;  ///< one for each key that signed
  std::vector<NoteSignature> unknown;   ///< by keys that were not given
};

/// Verifies Ed25519 (type 0x01) signatures. `not_found`: none of the keys signed it. `tampered`: a signature of a
/// known key does not match. `invalid_input`: not a note.
[[nodiscard]] Result<OpenedNote> open_note(std::string_view bytes,
                                           std::span<const VerifierKey> keys);

/// `text` must end in a newline and hold no control characters.
[[nodiscard]] std::string sign_note(std::string_view text, const NoteSigningKey& key);
/// One signature line, with its newline.
[[nodiscard]] std::string signature_line(std::string_view name, std::uint32_t key_id,
                                         Bytes signature);

}  // namespace verbatim::audit
