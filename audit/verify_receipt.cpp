#include "audit/findings.hpp"
#include "audit/merkle.hpp"
#include "audit/proof.hpp"
#include "audit/verify_leaf.hpp"
#include "schema/canonical_json.hpp"

#include <utility>

namespace verbatim::audit {

namespace {

Error invalid(std::string what) {
  return Error{Errc::invalid_input, "the receipt: " + std::move(what), "",
               "give the file that verbatim receipt wrote"};
}

/// The proof, with its leaf in `extra`.
Result<TlogProof> read_receipt(std::string_view text) {
  std::string leaf;
  std::string proof_text(text);
  if (text.starts_with("{")) {
    const auto json = parse_json(text);
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
  if (!leaf.empty()) proof->extra = std::move(leaf);
  if (proof->extra.empty()) return invalid("it does not hold its leaf");
  return proof;
}

}  // namespace

Result<ReceiptReport> verify_receipt(std::string_view receipt, const VerifyOptions& options) {
  const auto proof = read_receipt(receipt);
  if (!proof) return proof.error();
  const auto key = parse_vkey(options.vkey);
  if (!key) {
    return Error{Errc::invalid_input, "the key: " + key.error().what, "",
                 "a receipt names no key: give the log's with --key"};
  }
  ReceiptReport report;
  Findings findings;
  report.index = proof->index;
  report.leaf = proof->extra;
  (void)read_leaf(proof->index, report.leaf, findings);
  const auto head = open_checkpoint(proof->checkpoint, *key);
  if (!head) {
    const bool other_key = head.error().code == Errc::not_found;
    findings.tampered(other_key ? "key" : "checkpoint_signature",
                      other_key ? "the receipt's checkpoint is not signed by the key given"
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
      auto given =
          expect_given(options.checkpoint, *key, head->origin, UINT64_MAX, heads, findings);
      if (!given) return given.error();
      heads.reached(head->size, [&] { return head->root; });
      heads.conclude(true, findings);
    }
    if (!options.policy.empty()) {
      auto policy = check_policy(options.policy, proof->checkpoint, *key, findings);
      if (!policy) return policy.error();
    }
  }
  report.verdict = findings.verdict();
  report.problems = findings.take_problems();
  return report;
}

}  // namespace verbatim::audit
