#include "audit/policy.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace verbatim::audit {

namespace {

constexpr std::size_t kPolicyBytesMax = 1 << 20;

Error malformed(std::string what) {
  return Error{Errc::invalid_input, std::move(what), "policy", ""};
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

}  // namespace

std::string cosignature_message(std::uint64_t unix_seconds, std::string_view text) {
  return "cosignature/v1\ntime " + std::to_string(unix_seconds) + "\n" + std::string(text);
}

std::string cosign(std::string_view text, std::string_view name, const Ed25519PrivateKey& key,
                   std::uint64_t unix_seconds) {
  ByteVector bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(unix_seconds >> shift));
  }
  const auto signature = key.sign(as_bytes(cosignature_message(unix_seconds, text)));
  bytes.insert(bytes.end(), signature.begin(), signature.end());
  return signature_line(name, note_key_id(name, kNoteCosignature, key.public_key()), bytes);
}

std::optional<std::uint64_t> verify_cosignature(const NoteSignature& signature,
                                                std::string_view text, const VerifierKey& key) {
  if (key.type != kNoteCosignature || signature.name != key.name || signature.key_id != key.id() ||
      signature.bytes.size() != 72) {
    return std::nullopt;
  }
  std::uint64_t time = 0;
  for (std::size_t i = 0; i < 8; ++i) time = time << 8 | signature.bytes[i];
  if (time > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  const bool valid = ed25519_verify(key.key, as_bytes(cosignature_message(time, text)),
                                    Bytes(signature.bytes).subspan(8));
  return valid ? std::optional(time) : std::nullopt;
}

Result<Policy> Policy::parse(std::string_view text) {
  if (text.size() > kPolicyBytesMax) return malformed("the policy is larger than 1 MiB");
  Policy policy;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (words.empty()) continue;
    if (auto line = policy.parse_line(words); !line) {
      Error error = line.error();
      error.where = "policy, line " + std::to_string(number);
      return error;
    }
  }
  if (!policy.quorum_) return malformed("the policy has no quorum line");
  return policy;
}

Result<void> Policy::parse_line(const std::vector<std::string_view>& words) {
  if (words[0] == "log" && (words.size() == 2 || words.size() == 3)) {
    auto key = parse_vkey(words[1]);
    if (!key) return key.error();
    logs_.push_back(std::move(*key));
    return {};
  }
  if (words[0] == "witness" && (words.size() == 3 || words.size() == 4)) {
    const std::string name(words[1]);
    auto key = parse_vkey(words[2]);
    if (!key) return key.error();
    if (key->type != kNoteCosignature) return malformed("a witness's key is no cosignature key");
    if (name == "none" || is_named(name)) return malformed("the name is taken: " + name);
    for (const Witness& other : witnesses_) {
      if (other.key.key == key->key) return malformed("two witnesses with one key: " + name);
    }
    witnesses_.push_back({name, std::move(*key), std::string(words.size() == 4 ? words[3] : "")});
    return {};
  }
  if (words[0] == "group" && words.size() >= 4) return parse_group(words);
  if (words[0] == "quorum" && words.size() == 2) {
    if (quorum_) return malformed("the policy has two quorum lines");
    quorum_ = std::string(words[1]);
    if (*quorum_ != "none" && !is_named(*quorum_)) return malformed("unknown name: " + *quorum_);
    return {};
  }
  return malformed("not a line of a policy: " + std::string(words[0].substr(0, 64)));
}

Result<void> Policy::parse_group(const std::vector<std::string_view>& words) {
  const std::string name(words[1]);
  if (name == "none" || is_named(name)) {
    return malformed("the name is taken: " + name);
  }
  Group group;
  for (const std::string_view word : std::span(words).subspan(3)) {
    const std::string member(word);
    if (!is_named(member)) return malformed("unknown name: " + member);
    for (const auto& [other, used] : groups_) {
      if (std::find(used.members.begin(), used.members.end(), member) != used.members.end()) {
        return malformed("a member of two groups: " + member);
      }
    }
    if (std::find(group.members.begin(), group.members.end(), member) != group.members.end()) {
      return malformed("a member twice: " + member);
    }
    group.members.push_back(member);
  }
  const std::string_view needed = words[2];
  if (needed == "all") {
    group.needed = group.members.size();
  } else if (needed == "any") {
    group.needed = 1;
  } else {
    const auto [end, error] =
        std::from_chars(needed.data(), needed.data() + needed.size(), group.needed);
    if (error != std::errc() || end != needed.data() + needed.size() || group.needed == 0 ||
        group.needed > group.members.size()) {
      return malformed("a group needs all, any, or a number of its members");
    }
  }
  groups_.emplace(name, std::move(group));
  return {};
}

bool Policy::is_named(const std::string& name) const {
  return groups_.contains(name) ||
         std::any_of(witnesses_.begin(), witnesses_.end(),
                     [&](const Witness& witness) { return witness.name == name; });
}

bool Policy::satisfied(const std::string& name, const std::set<std::string>& signers) const {
  const auto group = groups_.find(name);
  if (group == groups_.end()) return signers.contains(name);
  // Members were named before their group: no cycles.
  const auto& members = group->second.members;
  const auto count = std::count_if(members.begin(), members.end(), [&](const std::string& member) {
    return satisfied(member, signers);
  });
  return static_cast<std::size_t>(count) >= group->second.needed;
}

bool Policy::met_by(const Note& note) const {
  if (*quorum_ == "none") return true;
  std::set<std::string> signers;
  for (const Witness& witness : witnesses_) {
    for (const NoteSignature& signature : note.signatures) {
      if (verify_cosignature(signature, note.text, witness.key)) signers.insert(witness.name);
    }
  }
  return satisfied(*quorum_, signers);
}

}  // namespace verbatim::audit
