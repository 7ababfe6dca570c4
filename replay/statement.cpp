#include "replay/statement.hpp"

#include "audit/dsse.hpp"
#include "audit/merkle.hpp"

namespace verbatim::replay {

namespace {

struct Outcome {
  const char* result;
  const char* list;
};

Outcome outcome_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::bitwise:
    case VerdictKind::token_exact:
      return {"PASSED", "passedTests"};
    case VerdictKind::within_margin:
    case VerdictKind::not_replayable:
    case VerdictKind::erased:
    case VerdictKind::pruned:
      return {"WARNED", "warnedTests"};
    case VerdictKind::diverged:
      return {"FAILED", "failedTests"};
  }
  return {"FAILED", "failedTests"};
}

}  // namespace

Result<std::string> statement(audit::RecordSource& reader, const Verdict& verdict) {
  const std::uint64_t index = verdict.response_index.value_or(verdict.request_index);
  const auto leaf = reader.leaf(index);
  if (!leaf) return leaf.error();

  Json configuration = Json::array();
  if (verdict.engine) {
    configuration.push_back(
        {{"name", "weights"}, {"digest", {{"sha256", verdict.engine->weights_sha256}}}});
  }
  const Outcome outcome = outcome_of(verdict.kind);
  Json predicate = {{"result", outcome.result},
                    {"configuration", std::move(configuration)},
                    {"verbatim", verdict_fields(verdict)}};
  predicate[outcome.list] = Json::array({verdict_name(verdict.kind)});
  return canonical(
      {{"_type", "https://in-toto.io/Statement/v1"},
       {"subject",
        Json::array({{{"name", "leaf/" + std::to_string(index)},
                      {"digest", {{"sha256", audit::leaf_hash(as_bytes(leaf->bytes)).hex()}}}}})},
       {"predicateType", "https://in-toto.io/attestation/test-result/v0.1"},
       {"predicate", std::move(predicate)}});
}

Result<std::string> signed_statement(audit::RecordSource& reader, const Verdict& verdict,
                                     audit::LogKey& key) {
  const auto text = statement(reader, verdict);
  if (!text) return text.error();
  return audit::sign_statement(*text, key);
}

}  // namespace verbatim::replay
