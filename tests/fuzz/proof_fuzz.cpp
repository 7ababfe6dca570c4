// Texts around the tree: receipts, requests to witnesses, policies, and proofs of every shape.

#include "audit/merkle.hpp"
#include "audit/policy.hpp"
#include "audit/proof.hpp"
#include "audit/tiles.hpp"
#include "audit/verify.hpp"
#include "audit/witness.hpp"
#include "tests/fuzz/log_fixture.hpp"

namespace verbatim::fuzz {

namespace {

using namespace audit;

/// A tree of `size` leaves, each the hash of its number.
Result<Digest> node_of(int level, std::uint64_t n) {
  if (level == 0) return leaf_hash(as_bytes(std::to_string(n)));
  return node_hash(*node_of(level - 1, 2 * n), *node_of(level - 1, 2 * n + 1));
}

/// Proofs of a small tree verify, and with one hash changed, added or left out they do not.
void check_tree(std::string_view input) {
  const std::uint64_t size = 1 + take_choice(input) % 40;
  const std::uint64_t at = take_choice(input) % size;
  const std::uint8_t where = take_choice(input);
  const Digest root = tree_root(node_of, size).value();
  const Digest leaf = node_of(0, at).value();
  auto inclusion = make_inclusion_proof(node_of, at, size).value();
  VERBATIM_CHECK(verify_inclusion(at, size, leaf, inclusion, root));
  auto consistency = make_consistency_proof(node_of, at + 1, size).value();
  const Digest first = tree_root(node_of, at + 1).value();
  VERBATIM_CHECK(verify_consistency(at + 1, size, first, root, consistency));
  for (auto* proof : {&inclusion, &consistency}) {
    if (where % 3 == 0 && !proof->empty()) {
      (*proof)[where % proof->size()].bytes[where % 32] ^= 1;
    } else if (where % 3 == 1 && !proof->empty()) {
      proof->erase(proof->begin() + where % static_cast<std::ptrdiff_t>(proof->size()));
    } else {
      proof->push_back(root);
    }
  }
  VERBATIM_CHECK(!verify_inclusion(at, size, leaf, inclusion, root));
  VERBATIM_CHECK(!verify_consistency(at + 1, size, first, root, consistency));
}

void check_texts(std::string_view text) {
  if (const auto proof = parse_tlog_proof(text)) {
    VERBATIM_CHECK(format_tlog_proof(*proof) == text);
    (void)verify_tlog_proof(*proof, as_bytes("leaf"), KeyChain(signing_key().verifier()));
  }
  if (const auto request = parse_witness_request(text)) {
    VERBATIM_CHECK(format_witness_request(*request) == text);
  }
  if (const auto policy = Policy::parse(text)) {
    Note nobody;
    nobody.text = checkpoint_text({kOrigin, 1, Digest{}});
    (void)policy->met_by(nobody);
    for (const auto& witness : policy->witnesses()) VERBATIM_CHECK(!witness.name.empty());
  }
  if (const auto entries = split_entries(text)) {
    std::string again;
    for (const std::string_view entry : *entries) append_entry(again, entry);
    VERBATIM_CHECK(again == text);
  }
  (void)split_tile(text, text.size() / 32);
}

void check_receipt(std::string_view text) {
  VerifyOptions options;
  options.vkey = small_log().vkey;
  const auto report = verify_receipt(text, options);
  if (!report || report->verdict != Verdict::valid) return;
  // What is called valid is a leaf that the log has.
  VERBATIM_CHECK(report->index < small_log().leaves.size());
  VERBATIM_CHECK(report->leaf == small_log().leaves[report->index]);
}

void run(std::string_view input) {
  check_texts(input);
  check_receipt(input);
  check_tree(input);
}

std::vector<std::string> seeds() {
  const SmallLog& log = small_log();
  const std::string witness = witness_key(3, "witness.example").str();
  const std::string policy = "# who\nlog " + log.vkey + "\nwitness w1 " + witness +
                             " https://witness.example\nwitness w2 " +
                             witness_key(4, "w.example").str() +
                             "\ngroup g 2 w1 w2\ngroup all all g w1\nquorum all\n";
  std::string entries;
  for (const std::string& leaf : log.leaves) append_entry(entries, leaf);
  const std::string without_leaf = log.receipts[1].substr(0, log.receipts[1].find("extra")) +
                                   log.receipts[1].substr(log.receipts[1].find("index"));
  return {log.receipts[0],
          log.receipts[2],
          Json{{"receipt", without_leaf}, {"leaf", log.leaves[1]}}.dump(),
          format_witness_request({3, {sha256("a"), sha256("b")}, log.checkpoint}),
          policy,
          "quorum none\n",
          entries,
          std::string(96, 'h')};
}

const Registration kProof({"proof",
                           run,
                           seeds,
                           {"c2sp.org/tlog-proof@v1\n", "extra ", "index ", "old ", "group ",
                            "quorum ", " all ", " any ", "witness ", "\n\n", "18446744073709551615",
                            "-1", "0x1", "none\n", "log "}});

}  // namespace

}  // namespace verbatim::fuzz
