#include "audit/key_rotator.hpp"

#include "audit/erasure.hpp"
#include "audit/json_member.hpp"
#include "audit/key_chain.hpp"
#include "audit/writer.hpp"

#include <utility>

namespace verbatim::audit {

namespace {

constexpr const char* kRotated = "key_rotated";
constexpr const char* kRetired = "key_retired";

LeafDraft draft_of(const char* type, const std::string& reason, const std::string& actor) {
  LeafDraft draft;
  draft.type = type;
  draft.fields = {{"reason", reason}, {"actor", actor}};
  return draft;
}

/// A key in a token is not followed by one in a file unless somebody says so.
Result<std::string> place_of_next(const std::string& to, const Signer& signer) {
  if (to.empty() && signer.in_token()) {
    return Error{Errc::invalid_input, "the key so far is in a token: where is the next one?", "",
                 "name it with --to pkcs11:..., or --to file"};
  }
  return to == "file" ? "" : to;
}

/// A new key, introduced by a leaf that both sign.
Result<Appended> rotate(BatchWriter& writer, const KeyChain& chain, LeafDraft leaf,
                        const std::string& to, const Uuid& id, std::int64_t now_us) {
  Signer& signer = writer.signer();
  if (chain.signing().size() > 1) {
    return Error{Errc::unavailable, "the overlap of the last rotation has not ended",
                 chain.newest().str(), "end it first (verbatim keys retire)"};
  }
  // A crash from here on: the key waits in its file, and the next start takes it if the leaf is there, else removes it.
  const auto place = place_of_next(to, signer);
  if (!place) return place.error();
  const auto next = signer.prepare_next(*place, chain.all());
  if (!next) return next.error();
  const auto note = signer.sign_rotation({chain.origin(), writer.size(), chain.newest(), *next});
  if (!note) return note.error();
  leaf.fields["note"] = *note;
  signer.use_next();
  const auto appended = writer.write(std::move(leaf), id, now_us);
  if (!appended) {
    if (!writer.stopped()) signer.drop_next();
    return appended;
  }
  if (auto kept = signer.keep({*next, chain.newest()}); !kept) {
    writer.stop();  // the next start keeps them
    return kept.error();
  }
  return appended;
}

/// The older of two keys signs once more, for the leaf that says so.
Result<Appended> retire(BatchWriter& writer, const KeyChain& chain, LeafDraft leaf, const Uuid& id,
                        std::int64_t now_us) {
  const auto signing = chain.signing();
  if (signing.size() < 2) {
    return Error{Errc::unavailable, "the only key that signs cannot retire", chain.newest().str(),
                 "introduce its successor first (verbatim keys rotate)"};
  }
  leaf.fields["vkey"] = signing.back().str();
  const auto appended = writer.write(std::move(leaf), id, now_us);
  if (!appended) return appended;
  // A crash before this: the next start destroys it.
  if (auto kept = writer.signer().keep({signing.begin(), signing.end() - 1}); !kept) {
    writer.stop();
    return kept.error();
  }
  return appended;
}

}  // namespace

LeafDraft rotate_key(const std::string& reason, const std::string& actor, const std::string& to) {
  LeafDraft draft = draft_of(kRotated, reason, actor);
  if (!to.empty()) draft.fields["to"] = to;
  return draft;
}

LeafDraft retire_key(const std::string& reason, const std::string& actor) {
  return draft_of(kRetired, reason, actor);
}

bool changes_key(const LeafDraft& draft) {
  return draft.type == kRotated || draft.type == kRetired;
}

Result<Appended> change_key(BatchWriter& writer, LeafDraft draft, const Uuid& id,
                            std::int64_t now_us) {
  const std::string reason = text_at(draft.fields, "reason");
  const std::string actor = text_at(draft.fields, "actor");
  if (auto given = check_reason(reason, actor); !given) return given.error();
  const std::string to = text_at(draft.fields, "to");
  const auto chain = read_key_chain(writer.store().queries(), writer.size());
  if (!chain) return chain.error();
  LeafDraft leaf =
      draft_of(draft.type.c_str(), reason, actor);  // and nothing else of what was sent
  return draft.type == kRotated ? rotate(writer, *chain, std::move(leaf), to, id, now_us)
                                : retire(writer, *chain, std::move(leaf), id, now_us);
}

}  // namespace verbatim::audit
