#include "audit/key_chain.hpp"

#include "audit/json_member.hpp"
#include "audit/queries.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::string_view kTitle = "verbatim/key-rotation/v1";

Error malformed() {
  return Error{Errc::invalid_input, "not a note of one key about its successor", "", ""};
}

Error misfit(std::string what) { return Error{Errc::tampered, std::move(what), "", ""}; }

}  // namespace

std::string rotation_text(const KeyRotation& rotation) {
  return std::string(kTitle) + "\n" + rotation.origin + "\n" + std::to_string(rotation.index) +
         "\n" + rotation.from.str() + "\n" + rotation.to.str() + "\n";
}

Result<KeyRotation> open_rotation(std::string_view note) {
  const auto parsed = parse_note(note);
  if (!parsed) return parsed.error();
  std::string_view text = parsed->text;
  std::array<std::string_view, 5> lines;
  for (std::string_view& line : lines) {
    const auto taken = take_line(text);
    if (!taken) return malformed();
    line = *taken;
  }
  KeyRotation rotation;
  const std::string_view number = lines[2];
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), rotation.index);
  const auto from = parse_vkey(lines[3]);
  const auto to = parse_vkey(lines[4]);
  if (error != std::errc() || end != number.data() + number.size() || !from || !to) {
    return malformed();
  }
  rotation.origin = lines[1];
  rotation.from = *from;
  rotation.to = *to;
  // The exact form, and nothing after it.
  if (rotation_text(rotation) != parsed->text) return malformed();
  const std::array<VerifierKey, 2> both{rotation.from, rotation.to};
  const auto opened = open_note(note, both);
  if (!opened && opened.error().code == Errc::tampered) return opened.error();
  if (!opened || opened->verified.size() != 2) {
    return misfit("a rotation must be signed by the old key and by the new one");
  }
  return rotation;
}

Result<void> KeyChain::rotate(std::string_view note) {
  const auto rotation = open_rotation(note);
  if (!rotation) return misfit(rotation.error().what);
  if (rotation->from != newest()) {
    return misfit("the rotation to " + rotation->to.str() + " is not by the newest key");
  }
  if (rotation->origin != origin() || rotation->to.name != origin()) {
    return misfit("the rotation is of another log's key");
  }
  if (contains(rotation->to)) return misfit("a key cannot come back: " + rotation->to.str());
  if (rotation->index < links_.back().from) return misfit("a rotation before the one it follows");
  links_.push_back({rotation->to, rotation->index + 1, {}, std::string(note)});
  return {};
}

Result<void> KeyChain::retire(std::uint64_t index, const std::string& vkey) {
  const auto link = std::find_if(links_.begin(), links_.end(),
                                 [&](const Link& l) { return l.key.str() == vkey && !l.until; });
  if (link == links_.end()) return misfit("a key is retired that did not sign");
  if (std::next(link) == links_.end()) return misfit("the only key that signs cannot retire");
  link->until = index + 1;
  return {};
}

Result<void> KeyChain::add(std::uint64_t index, const Json& leaf) {
  const std::string type = text_at(leaf, "type");
  if (type == "key_retired") return retire(index, text_at(leaf, "vkey"));
  if (type != "key_rotated") return {};
  const std::string note = text_at(leaf, "note");
  const auto rotation = open_rotation(note);
  if (rotation && rotation->index != index) return misfit("the rotation belongs to another leaf");
  return rotate(note);
}

bool KeyChain::contains(const VerifierKey& key) const {
  return std::any_of(links_.begin(), links_.end(), [&](const Link& l) { return l.key == key; });
}

std::vector<VerifierKey> KeyChain::all() const {
  std::vector<VerifierKey> keys;
  for (const Link& link : links_) keys.push_back(link.key);
  return keys;
}

std::vector<VerifierKey> KeyChain::signing() const {
  std::vector<VerifierKey> keys;
  for (auto link = links_.rbegin(); link != links_.rend(); ++link) {
    if (!link->until) keys.push_back(link->key);
  }
  return keys;
}

std::vector<VerifierKey> KeyChain::at(std::uint64_t size) const {
  std::vector<VerifierKey> keys;
  for (auto link = links_.rbegin(); link != links_.rend(); ++link) {
    if (link->from <= size && (!link->until || size <= *link->until)) keys.push_back(link->key);
  }
  return keys;
}

Result<Checkpoint> open_checkpoint(std::string_view note, const KeyChain& keys) {
  const auto parsed = parse_note(note);
  if (!parsed) return parsed.error();
  auto checkpoint = parse_checkpoint_text(parsed->text);
  // Who signed it is the first question: what is no checkpoint may still be signed by nobody.
  const auto in_force = keys.at(checkpoint ? checkpoint->size : 0);
  const auto opened = open_note(note, in_force);
  if (!opened) return opened.error();
  if (!checkpoint) return checkpoint.error();
  const VerifierKey& must = in_force.front();
  for (const NoteSignature& signature : opened->verified) {
    if (signature.name == must.name && signature.key_id == must.id()) return checkpoint;
  }
  return Error{Errc::not_found,
               "the checkpoint is not signed by the key that signs trees of " +
                   std::to_string(checkpoint->size) + " leaves",
               must.str(), ""};
}

Result<KeyChain> read_key_chain(Queries& queries, std::uint64_t size) {
  const auto bytes = queries.leaf(0);
  if (!bytes) return bytes.error();
  const auto json = parse_json(*bytes);
  const auto first = parse_vkey(json ? text_at(*json, "vkey") : "");
  if (!json || text_at(*json, "type") != "log_created" || !first) {
    return misfit("leaf 0 does not say how the log was created");
  }
  KeyChain chain(*first);
  Result<void> added;
  auto read = queries.key_changes(size, [&](std::uint64_t index, std::string_view leaf) {
    const auto parsed = parse_json(leaf);
    added = parsed ? chain.add(index, *parsed) : Result<void>(parsed.error());
    if (!added) added = misfit("leaf " + std::to_string(index) + ": " + added.error().what);
    return added.has_value();
  });
  if (!read) return read.error();
  if (!added) return added.error();
  return chain;
}

}  // namespace verbatim::audit
