// Leaves, and the members of leaves that say what was erased, held, pruned, stamped or rotated; drafts that come over the
// socket; and signed statements.

#include "audit/append_socket.hpp"
#include "audit/dsse.hpp"
#include "audit/key_chain.hpp"
#include "audit/leaf.hpp"
#include "audit/prune.hpp"
#include "audit/retention.hpp"
#include "audit/timestamp.hpp"
#include "audit/verify_leaf.hpp"
#include "replay/explanation.hpp"
#include "tests/fuzz/log_fixture.hpp"

namespace verbatim::fuzz {

namespace {

using namespace audit;

void check_members(const Json& leaf) {
  (void)summary_of(leaf);
  (void)read_erased(leaf);
  (void)read_prune(7, leaf);
  (void)read_scope(leaf);
  (void)kept_until_text(kept_until(leaf));
  (void)read_timestamp(leaf);
  (void)replay::explanation_text(leaf);
  KeyChain chain(signing_key().verifier());
  const std::size_t before = chain.links().size();
  if (!chain.add(5, leaf)) VERBATIM_CHECK(chain.links().size() == before);
}

void check_leaf(std::string_view bytes) {
  Findings findings;
  const auto leaf = read_leaf(3, bytes, findings);
  VERBATIM_CHECK(leaf.has_value() == (findings.verdict() == Verdict::valid));
  if (leaf) {
    // A leaf has one form.
    VERBATIM_CHECK(canonical(leaf->json) == bytes);
    VERBATIM_CHECK(bytes.size() <= kLeafBytesMax);
  }
  LeafCheck check;
  (void)check.add(0, small_log().leaves[0], findings);
  (void)check.add(1, bytes, findings);
  (void)check.add(2, bytes, findings);
  VERBATIM_CHECK(check.open_from(3) <= 3);
}

void check_messages(std::string_view message) {
  if (const auto draft = decode_draft(message)) {
    const std::string again = encode_draft(*draft);
    const auto decoded = decode_draft(again);
    VERBATIM_CHECK(decoded.has_value());
    VERBATIM_CHECK(encode_draft(*decoded) == again);
  }
  if (const auto request = decode_erase(message)) {
    VERBATIM_CHECK(decode_erase(encode_erase(*request)).has_value());
  }
  if (const auto appended = decode_result(message)) {
    VERBATIM_CHECK(decode_result(encode_result(*appended)).has_value());
  }
  if (const auto erased = decode_erased(message)) {
    VERBATIM_CHECK(decode_erased(encode_erased(*erased)).has_value());
  }
}

void check_statement(std::string_view text) {
  const VerifierKey key = signing_key().verifier();
  const auto statement = open_statement(text, key);
  if (!statement) return;
  // Signing is deterministic: what was accepted was signed.
  SeedKey signer(signing_key());
  VERBATIM_CHECK(*open_statement(*sign_statement(*statement, signer), key) == *statement);
  const auto members = parse_json(text);
  const auto sig =
      from_base64(members->at("dsseEnvelope").at("signatures").at(0).at("sig").get<std::string>());
  if (sig) {
    VERBATIM_CHECK(ed25519_verify(key.key, as_bytes(dsse_pae(kInTotoType, *statement)), *sig));
  }
}

void run(std::string_view input) {
  check_leaf(input);
  check_messages(input);
  check_statement(input);
  if (const auto json = parse_json(input)) check_members(*json);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = small_log().leaves;
  SeedKey key(signing_key());
  all.push_back(*sign_statement(R"({"_type":"https://in-toto.io/Statement/v1"})", key));
  LeafDraft draft;
  draft.type = "access";
  draft.fields = {{"actor", "a"}, {"what", "read"}};
  draft.contents = {{"access.note", "text"}};
  draft.subject = "s";
  draft.canonical = CanonicalOutput{sha256("key"), 5};
  all.push_back(encode_draft(draft));
  Scope scope;
  scope.subject = "handle";
  all.push_back(encode_erase({scope, "asked to", "me"}));
  all.push_back(encode_result(Appended{17, 18, sha256("x"), Uuid{}, 5}));
  all.push_back(encode_erased(ErasureReport{3, {17, 18}, true, false}));
  const std::string rotation =
      rotation_text({kOrigin, 5, key.verifier(), signing_key(2).verifier()});
  const std::string note = sign_note(rotation, signing_key()) +
                           sign_note(rotation, signing_key(2)).substr(rotation.size() + 1);
  all.push_back(canonical({{"type", "key_rotated"}, {"note", note}, {"actor", "a"}}));
  all.push_back(canonical({{"type", "key_retired"}, {"key", key.verifier().str()}}));
  all.push_back(canonical({{"type", "erasure"},
                           {"erased", erased_json({{2, {"request.body"}}, {3, {"response.body"}}})},
                           {"scope", scope_json(scope)}}));
  all.push_back(canonical({{"type", "prune"},
                           {"minimum_index", 256},
                           {"kept", {0, 5}},
                           {"retention", retention_json({"law", 180, "basis"})},
                           {"time", "2026-11-30T00:00:00.000000Z"}}));
  all.push_back(
      R"({"choice":0,"against":"record","causes":[{"layer":1,"operator":"q","position":3}],"stages":4})");
  return all;
}

const Registration kLeaf({"leaf",
                          run,
                          seeds,
                          {"\"type\":\"request\"", "\"type\":\"response\"", "\"type\":\"prune\"",
                           "\"type\":\"hold\"", "\"contents\":[", "\"commitment\":", "\"id\":\"",
                           "\"v\":1", "\"time\":\"", "\"request\":0", "\"kept\":[",
                           "\"retention\":{", "\"days\":", "\"erased\":[", "\"draft\":{", "null",
                           "1.5", "9007199254740993"}});

}  // namespace

}  // namespace verbatim::fuzz
