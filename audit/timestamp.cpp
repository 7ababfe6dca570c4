#include "audit/timestamp.hpp"

#include "audit/json_member.hpp"
#include "schema/clock.hpp"

#include <utility>

namespace verbatim::audit {

namespace {

Json members_of(const Timestamp& timestamp) {
  return {{"note", timestamp.note},
          {"size", timestamp.head.size},
          {"root", timestamp.head.root.hex()},
          {"imprint", timestamp.token.imprint.hex()},
          {"token", to_base64(as_bytes(timestamp.token.der))},
          {"stamped", format_rfc3339(timestamp.token.time_us)},
          {"tsa", timestamp.token.tsa}};
}

}  // namespace

Result<Timestamp> stamped(std::string note, TimestampToken token) {
  const auto parsed = parse_note(note);
  if (!parsed) return parsed.error();
  auto head = parse_checkpoint_text(parsed->text);
  if (!head) return head.error();
  if (sha256(note) != token.imprint) {
    return Error{Errc::tampered, "the time stamp is of something else than the checkpoint",
                 "size " + std::to_string(head->size), ""};
  }
  return Timestamp{std::move(note), std::move(*head), std::move(token)};
}

LeafDraft timestamp_draft(const Timestamp& timestamp, const std::string& actor) {
  LeafDraft draft;
  draft.type = "timestamp";
  draft.fields = members_of(timestamp);
  draft.fields["actor"] = actor;
  return draft;
}

Result<Timestamp> read_timestamp(const Json& leaf) {
  const auto der = from_base64(text_at(leaf, "token"));
  if (!der) return der.error();
  auto token = open_timestamp_token(as_text(*der));
  if (!token) return token.error();
  auto timestamp = stamped(text_at(leaf, "note"), std::move(*token));
  if (!timestamp) return timestamp;
  const Json members = members_of(*timestamp);
  for (const auto& [name, value] : members.items()) {
    const Json* const said = member(leaf, name.c_str());
    if (said != nullptr && *said == value) continue;
    return Error{Errc::tampered, "a member does not say what note and token say", name, ""};
  }
  return timestamp;
}

}  // namespace verbatim::audit
