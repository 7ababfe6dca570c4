// Signed notes, checkpoints, cosignatures, rotations and keys' texts: what is accepted really verifies, and is printed as
// it was read.

#include "audit/checkpoint.hpp"
#include "audit/key_chain.hpp"
#include "audit/policy.hpp"
#include "tests/fuzz/log_fixture.hpp"

#include <algorithm>

namespace verbatim::fuzz {

namespace {

using namespace audit;

struct Keys {
  NoteSigningKey log = signing_key();
  NoteSigningKey next = signing_key(2);
  VerifierKey witness = witness_key(3, "witness.example");
  std::vector<VerifierKey> verifiers{log.verifier(), next.verifier()};
};

const Keys& keys() {
  static const Keys all;
  return all;
}

void check_note(std::string_view bytes) {
  const auto note = parse_note(bytes);
  const auto opened = open_note(bytes, keys().verifiers);
  if (!note) {
    VERBATIM_CHECK(!opened.has_value());
    return;
  }
  VERBATIM_CHECK(note->text.ends_with('\n') && is_utf8(note->text));
  VERBATIM_CHECK(!note->signatures.empty() && note->signatures.size() <= kNoteSignaturesMax);
  std::string printed = note->text + "\n";
  for (const NoteSignature& line : note->signatures) {
    printed += signature_line(line.name, line.key_id, line.bytes);
  }
  VERBATIM_CHECK(printed == bytes);
  (void)verify_cosignature(note->signatures.front(), note->text, keys().witness);
  if (!opened) return;
  VERBATIM_CHECK(opened->text == note->text && !opened->verified.empty());
  for (const NoteSignature& line : opened->verified) {
    VERBATIM_CHECK(
        std::any_of(keys().verifiers.begin(), keys().verifiers.end(), [&](const VerifierKey& key) {
          return line.name == key.name && ed25519_verify(key.key, as_bytes(note->text), line.bytes);
        }));
  }
}

void check_checkpoint(std::string_view text) {
  const auto checkpoint = parse_checkpoint_text(text);
  if (checkpoint) {
    // What follows the three lines is allowed and means nothing.
    VERBATIM_CHECK(text.starts_with(checkpoint_text(*checkpoint)));
    const auto again = parse_checkpoint_text(checkpoint_text(*checkpoint));
    VERBATIM_CHECK(again.has_value());
    VERBATIM_CHECK(*again == *checkpoint);
  }
  const auto opened = open_checkpoint(text, KeyChain(keys().log.verifier()));
  if (opened) VERBATIM_CHECK(open_note(text, keys().verifiers).has_value());
}

void check_keys(std::string_view text) {
  if (const auto key = parse_vkey(text)) VERBATIM_CHECK(key->str() == text);
  if (const auto key = parse_skey(text)) {
    VERBATIM_CHECK(parse_vkey(key->verifier().str()).has_value());
  }
  (void)is_key_name(text);
}

/// A text that can be signed is opened again with its signature, and with a cosignature.
void check_signed(std::string_view text) {
  if (!text.ends_with('\n')) return;
  const std::string note = sign_note(text, keys().log);
  const auto opened = open_note(note, keys().verifiers);
  const bool is_plain = is_utf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
                          return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f;
                        });
  if (!opened) {
    VERBATIM_CHECK(!is_plain || text.find("\n\n\xE2\x80\x94") != std::string_view::npos ||
                   text.starts_with("\n\xE2\x80\x94") || note.size() > kNoteBytesMax);
    return;
  }
  VERBATIM_CHECK(opened->text == text);
  check_note(note);
  check_checkpoint(note);
  const std::string line =
      cosign(text, "witness.example", signing_key(3, "witness.example").key, 12345);
  const auto both = parse_note(note + line);
  VERBATIM_CHECK(both.has_value());
  VERBATIM_CHECK(verify_cosignature(both->signatures.back(), text, keys().witness) == 12345U);
}

void run(std::string_view input) {
  const std::uint8_t choice = take_choice(input);
  check_note(input);
  check_checkpoint(input);
  check_keys(input);
  if (choice >= 128) check_signed(input);
  if (const auto rotation = open_rotation(input)) {
    KeyChain chain(rotation->from);
    (void)chain.rotate(input);
    VERBATIM_CHECK(open_note(input, std::vector{rotation->from, rotation->to})->verified.size() ==
                   2);
  }
}

std::vector<std::string> seeds() {
  const std::string text = checkpoint_text({kOrigin, 5, sha256("root")});
  const std::string note = sign_note(text, keys().log);
  const std::string cosigned =
      note + cosign(text, "witness.example", signing_key(3, "witness.example").key, 1'700'000'000);
  const std::string rotation =
      rotation_text({kOrigin, 4, keys().log.verifier(), keys().next.verifier()});
  const std::string rotated = sign_note(rotation, keys().log) +
                              sign_note(rotation, keys().next).substr(rotation.size() + 1);
  std::vector<std::string> all;
  for (const std::string& each :
       {note, cosigned, rotated, text + "extension\n", text, keys().log.verifier().str(),
        keys().witness.str(), format_skey(kOrigin, Ed25519Seed{})}) {
    all.push_back(each + '\x01');
    all.push_back(each + '\xFF');
  }
  return all;
}

const Registration kNote({"note",
                          run,
                          seeds,
                          {"\n\xE2\x80\x94 ", "\n\n", "+", "log.example/test", " ", "==\n", "007\n",
                           "+7\n", "18446744073709551616\n", "\xC2\xA0", "\r\n",
                           "verbatim/key-rotation/v1\n"}});

}  // namespace

}  // namespace verbatim::fuzz
