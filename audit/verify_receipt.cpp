#include "audit/findings.hpp"
#include "audit/merkle.hpp"
#include "audit/proof.hpp"
#include "audit/strict_json.hpp"
#include "audit/verify_leaf.hpp"
#include "audit/verify_timestamp.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::audit {

namespace {

Error invalid(std::string what) {
  return Error{Errc::invalid_input, "the receipt: " + std::move(what), "",
               "give the file that verbatim receipt wrote"};
}

struct Receipt {
  TlogProof proof;
  std::string leaf;
  std::vector<std::string> rotations;  ///< notes by which keys introduced others, oldest first
  std::string token;                   ///< a time stamp of the checkpoint, DER; "" for none
};

/// What follows the leaf in `extra`: first a JSON array of notes, on a line of its own.
Result<std::vector<std::string>> read_rotations(std::string_view text) {
  std::vector<std::string> notes;
  if (text.empty()) return notes;
  const auto json = parse_strict_json(text);
  if (!json || !json->is_array()) return invalid("what follows its leaf is no list of notes");
  for (const Json& note : *json) {
    if (!note.is_string()) return invalid("what follows its leaf is no list of notes");
    notes.push_back(note.get<std::string>());
  }
  return notes;
}

/// The lines of `extra`: the leaf, the notes, a time stamp. At least one.
std::vector<std::string_view> lines_of(std::string_view extra) {
  std::vector<std::string_view> lines;
  while (const auto line = take_line(extra)) lines.push_back(*line);
  lines.push_back(extra);
  return lines;
}

Result<Receipt> read_receipt(std::string_view text) {
  std::string leaf;
  std::string proof_text(text);
  if (text.starts_with("{")) {
    const auto json = parse_strict_json(text);
    if (!json) return invalid(json.error().what);
    for (const auto& [name, to] : {std::pair("receipt", &proof_text), std::pair("leaf", &leaf)}) {
      const auto found = json->find(name);
      if (found == json->end() || !found->is_string()) {
        return invalid("the object has no text '" + std::string(name) + "'");
      }
      *to = found->get<std::string>();
    }
  }
  auto proof = parse_tlog_proof(proof_text);
  if (!proof) return invalid(proof.error().what);
  const std::vector<std::string_view> lines = lines_of(proof->extra);
  auto rotations = read_rotations(lines.size() > 1 ? lines[1] : "");
  if (!rotations) return rotations.error();
  const auto token = from_base64(lines.size() > 2 ? lines[2] : "");
  if (!token || lines.size() > 3) return invalid("its time stamp is not base64");
  if (leaf.empty()) leaf = lines[0];
  if (leaf.empty()) return invalid("it does not hold its leaf");
  return Receipt{std::move(*proof), std::move(leaf), std::move(*rotations),
                 std::string(as_text(*token))};
}

/// Whether the time stamp is of the receipt's very checkpoint, and by one who is trusted.
std::optional<TimestampFinding> check_timestamp(const Receipt& receipt,
                                                const std::optional<TimestampTrust>& trust,
                                                Findings& findings) {
  if (receipt.token.empty()) {
    if (trust) {
      findings.add(Verdict::valid_unwitnessed, "timestamp_missing", "there is no time stamp");
    }
    return std::nullopt;
  }
  auto token = open_timestamp_token(receipt.token);
  const auto timestamp = token ? stamped(receipt.proof.checkpoint, std::move(*token))
                               : Result<Timestamp>(token.error());
  if (!timestamp) {
    findings.tampered("timestamp", "the receipt: " + timestamp.error().what);
    return std::nullopt;
  }
  TimestampFinding finding = finding_of(receipt.proof.index, *timestamp);
  if (!trust) return finding;
  const auto trusted = trust->check(timestamp->token);
  finding.trusted = trusted.has_value();
  if (!trusted) {
    findings.add(Verdict::valid_unwitnessed, "timestamp_untrusted",
                 trusted.error().what + " (" + trusted.error().where + ")");
  }
  return finding;
}

/// The keys that follow from the one that is trusted. Rotations before it say nothing of what it vouches for.
KeyChain chain_of(const VerifierKey& trusted, const Receipt& receipt, Findings& findings) {
  KeyChain chain(trusted);
  for (const std::string& note : receipt.rotations) {
    const auto rotation = open_rotation(note);
    if (rotation && rotation->from != chain.newest()) continue;
    const auto followed = rotation ? chain.rotate(note) : Result<void>(rotation.error());
    if (!followed) findings.tampered("key_chain", "the receipt: " + followed.error().what);
  }
  return chain;
}

}  // namespace

Result<ReceiptReport> verify_receipt(std::string_view receipt, const VerifyOptions& options) {
  const auto read = read_receipt(receipt);
  if (!read) return read.error();
  const TlogProof* const proof = &read->proof;
  const auto key = parse_vkey(options.vkey);
  if (!key) {
    const bool none = options.vkey.empty();
    return Error{Errc::invalid_input,
                 none ? "a receipt names no key" : "the key given: " + key.error().what, "",
                 "give the log's public key with --key"};
  }
  const auto trust = trust_of(options);
  if (!trust) return trust.error();
  ReceiptReport report;
  Findings findings;
  report.index = proof->index;
  report.leaf = read->leaf;
  const KeyChain chain = chain_of(*key, *read, findings);
  (void)read_leaf(proof->index, report.leaf, findings);
  const auto head = open_checkpoint(proof->checkpoint, chain);
  if (!head) {
    const bool other_key = head.error().code == Errc::not_found;
    findings.tampered(
        other_key ? "key" : "checkpoint_signature",
        other_key
            ? "the receipt's checkpoint is not signed by the key given: is it this log's, and "
              "of that time?"
            : "the receipt's checkpoint: " + head.error().what);
  } else {
    report.origin = head->origin;
    report.size = head->size;
    report.root = head->root;
    if (head->origin != key->name) {
      findings.tampered("checkpoint_origin", "the checkpoint is of another log, " + head->origin);
    }
    if (!verify_inclusion(proof->index, head->size, leaf_hash(as_bytes(report.leaf)), proof->hashes,
                          head->root)) {
      findings.tampered("inclusion",
                        "the proof does not lead from the leaf to the checkpoint's root",
                        proof->index);
    }
    if (!options.checkpoint.empty()) {
      // Only trees of one size can be compared without the log.
      HeadCheck heads;
      auto given = expect_given(options.checkpoint, chain, UINT64_MAX, heads, findings);
      if (!given) return given.error();
      heads.reached(head->size, [&] { return head->root; });
      heads.conclude(true, findings);
    }
    if (!options.policy.empty()) {
      auto policy = check_policy(options.policy, proof->checkpoint, chain, findings);
      if (!policy) return policy.error();
    }
  }
  report.timestamp = check_timestamp(*read, *trust, findings);
  report.verdict = findings.verdict();
  report.problems = findings.take_problems();
  return report;
}

}  // namespace verbatim::audit
