#include "audit/note.hpp"

#include "schema/digest.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::string_view kDash = "\xE2\x80\x94 ";  // em dash, space

Error malformed(std::string what) { return Error{Errc::invalid_input, std::move(what), "", ""}; }

/// White space beyond ASCII, in UTF-8: the code points that Unicode calls White_Space.
bool has_unicode_space(std::string_view text) {
  static constexpr std::string_view kSpaces[] = {
      "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
      "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
      "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
      "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
  return std::any_of(std::begin(kSpaces), std::end(kSpaces),
                     [&](std::string_view s) { return text.find(s) != std::string_view::npos; });
}

std::array<std::uint8_t, 4> big_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

std::uint32_t from_big_endian(Bytes b) {
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

/// `name+hex id+base64(type || 32 bytes)`.
struct KeyText {
  std::string name;
  std::uint32_t id = 0;
  ByteVector data;
};

Result<KeyText> parse_key_text(std::string_view text) {
  const std::size_t first = text.find('+');
  const std::size_t second = text.find('+', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos) return malformed("a key has the form name+id+base64");
  const std::string_view id = text.substr(first + 1, second - first - 1);
  const auto id_bytes = from_hex(id);
  if (!id_bytes || id_bytes->size() != 4 || to_hex(*id_bytes) != id) {
    return malformed("a key's id is 8 lower-case hexadecimal digits");
  }
  auto data = from_base64(text.substr(second + 1));
  if (!data || data->empty()) return malformed("a key ends in base64");
  KeyText key{std::string(text.substr(0, first)), from_big_endian(*id_bytes), std::move(*data)};
  if (!is_key_name(key.name)) return malformed("a key's name is empty, or has spaces");
  return key;
}

Result<NoteSignature> parse_signature_line(std::string_view line) {
  if (!line.starts_with(kDash)) return malformed("a line after the signatures began is none");
  line.remove_prefix(kDash.size());
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return malformed("a signature line has no signature");
  const std::string_view name = line.substr(0, space);
  const auto bytes = from_base64(line.substr(space + 1));
  if (!is_key_name(name) || !bytes || bytes->size() < 5) {
    return malformed("a malformed signature line");
  }
  return NoteSignature{std::string(name), from_big_endian(*bytes),
                       ByteVector(bytes->begin() + 4, bytes->end())};
}

}  // namespace

std::uint32_t VerifierKey::id() const { return note_key_id(name, type, key); }

std::string VerifierKey::str() const {
  ByteVector data{type};
  data.insert(data.end(), key.begin(), key.end());
  return name + "+" + to_hex(big_endian(id())) + "+" + to_base64(data);
}

std::uint32_t note_key_id(std::string_view name, std::uint8_t type, Bytes key) {
  const std::array<std::uint8_t, 2> middle{'\n', type};
  return from_big_endian(sha256({as_bytes(name), Bytes(middle), key}).view());
}

bool is_key_name(std::string_view name) {
  return !name.empty() && is_utf8(name) && !has_unicode_space(name) &&
         std::none_of(name.begin(), name.end(),
                      [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == '+'; });
}

Result<VerifierKey> parse_vkey(std::string_view text) {
  const auto parts = parse_key_text(text);
  if (!parts) return parts.error();
  const std::uint8_t type = parts->data.front();
  const Bytes key = Bytes(parts->data).subspan(1);
  if (note_key_id(parts->name, type, key) != parts->id) {
    return malformed("the key's id does not belong to its name and bytes");
  }
  if (type != kNoteEd25519 && type != kNoteCosignature) {
    return Error{Errc::unsupported, "key type " + std::to_string(type) + " is not Ed25519", "", ""};
  }
  VerifierKey result{parts->name, type, {}};
  if (key.size() != result.key.size()) return malformed("an Ed25519 key has 32 bytes");
  std::copy(key.begin(), key.end(), result.key.begin());
  return result;
}

Result<NoteSigningKey> parse_skey(std::string_view text) {
  static constexpr std::string_view kPrefix = "PRIVATE+KEY+";
  if (!text.starts_with(kPrefix)) return malformed("a signing key begins with PRIVATE+KEY+");
  const auto parts = parse_key_text(text.substr(kPrefix.size()));
  if (!parts) return parts.error();
  if (parts->data.front() != kNoteEd25519 || parts->data.size() != 33) {
    return malformed("the signing key is not an Ed25519 seed");
  }
  Ed25519Seed seed{};
  std::copy(parts->data.begin() + 1, parts->data.end(), seed.begin());
  NoteSigningKey key{parts->name, Ed25519PrivateKey(seed)};
  if (key.verifier().id() != parts->id) {
    return malformed("the signing key's id does not belong to its name and bytes");
  }
  return key;
}

std::string format_skey(std::string_view name, const Ed25519Seed& seed) {
  const Ed25519PrivateKey key(seed);
  ByteVector data{kNoteEd25519};
  data.insert(data.end(), seed.begin(), seed.end());
  const auto id = big_endian(note_key_id(name, kNoteEd25519, key.public_key()));
  return "PRIVATE+KEY+" + std::string(name) + "+" + to_hex(id) + "+" + to_base64(data);
}

Result<Note> parse_note(std::string_view bytes) {
  if (bytes.size() > kNoteBytesMax) return malformed("the note is larger than 1 MiB");
  const bool plain = std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n';
  });
  if (!plain || !is_utf8(bytes)) return malformed("the note is not text");
  const std::size_t split = bytes.rfind("\n\n");
  if (split == std::string_view::npos) return malformed("the note has no signatures");
  Note note;
  note.text = bytes.substr(0, split + 1);
  std::string_view lines = bytes.substr(split + 2);
  if (lines.empty() || lines.back() != '\n') return malformed("the note does not end in a newline");
  while (const auto line = take_line(lines)) {
    auto signature = parse_signature_line(*line);
    if (!signature) return signature.error();
    note.signatures.push_back(std::move(*signature));
    if (note.signatures.size() > kNoteSignaturesMax) return malformed("more than 100 signatures");
  }
  return note;
}

Result<OpenedNote> open_note(std::string_view bytes, std::span<const VerifierKey> keys) {
  auto note = parse_note(bytes);
  if (!note) return note.error();
  OpenedNote opened;
  std::set<std::pair<std::string, std::uint32_t>> seen;
  for (NoteSignature& signature : note->signatures) {
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const VerifierKey& k) {
      return k.type == kNoteEd25519 && k.name == signature.name && k.id() == signature.key_id;
    });
    if (key == keys.end()) {
      opened.unknown.push_back(std::move(signature));
      continue;
    }
    if (!seen.emplace(signature.name, signature.key_id).second) continue;
    if (!ed25519_verify(key->key, as_bytes(note->text), signature.bytes)) {
      return Error{Errc::tampered, "the signature does not match the note", key->name, ""};
    }
    opened.verified.push_back(std::move(signature));
  }
  if (opened.verified.empty()) {
    return Error{Errc::not_found, "the note is not signed by a known key", "", ""};
  }
  opened.text = std::move(note->text);
  return opened;
}

std::string signature_line(std::string_view name, std::uint32_t key_id, Bytes signature) {
  const auto id = big_endian(key_id);
  ByteVector bytes(id.begin(), id.end());
  bytes.insert(bytes.end(), signature.begin(), signature.end());
  return std::string(kDash) + std::string(name) + " " + to_base64(bytes) + "\n";
}

std::string sign_note(std::string_view text, const NoteSigningKey& key) {
  VERBATIM_CHECK(!text.empty() && text.back() == '\n');
  const Ed25519Signature signature = key.key.sign(as_bytes(text));
  return std::string(text) + "\n" + signature_line(key.name, key.verifier().id(), signature);
}

}  // namespace verbatim::audit
