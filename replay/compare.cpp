#include "replay/compare.hpp"

#include "local_engine/output_text.hpp"

#include <algorithm>
#include <tuple>

namespace verbatim::replay {

ReplayEngine describe(const local_engine::Engine& engine) {
  return {engine.profile(), engine.backend(), local_engine::build_id(),
          engine.fingerprint().weights_sha256.hex()};
}

bool is_end(const local_engine::Engine& engine, local_engine::TokenId id) {
  const auto& ends = engine.eos_ids();
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

void name_tokens(const local_engine::Engine& engine, Verdict& verdict) {
  const auto tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) return;
  if (verdict.expected) verdict.expected_text = tokenizer->decode({*verdict.expected}, false);
  if (verdict.got) verdict.got_text = tokenizer->decode({*verdict.got}, false);
}

void keep_trace(const local_engine::GenerationResult& result, Verdict& verdict) {
  verdict.trace.clear();
  for (const local_engine::TokenInfo& token : result.tokens) {
    verdict.margins.add(token.margin);
    verdict.trace.push_back(
        {token.id, token.best, token.text, token.margin, token.deficit, token.chosen});
  }
}

void check_fingerprint(const RecordedChoice& recorded, const local_engine::GenerationResult& result,
                       Verdict& verdict) {
  if (!recorded.fingerprint || recorded.fingerprint->size() != result.top_activations.size() ||
      recorded.output_ids.size() != result.tokens.size())
    return;
  auto found = local_engine::compare_fingerprint(*recorded.fingerprint, result.top_activations);
  if (const auto& before = verdict.fingerprint) {
    found.chunks += before->chunks;
    found.exact += before->exact;
    found.accepted += before->accepted;
    const auto worst = [](const local_engine::FingerprintAgreement& of) {
      return std::tuple(of.exponent_mismatches, of.mantissa_mean, of.mantissa_median);
    };
    if (worst(*before) > worst(found)) {
      found.values = before->values;
      std::tie(found.exponent_mismatches, found.mantissa_mean, found.mantissa_median) =
          worst(*before);
    }
  }
  verdict.fingerprint = found;
}

namespace {

using local_engine::GenerationResult;
using local_engine::TokenId;
using Hypotheses = std::vector<std::string>;

Result<GenerationResult> compute(local_engine::Engine& engine, const RecordedChoice& recorded,
                                 Method method) {
  auto request = recorded.request;
  request.top_activations = recorded.fingerprint.has_value();
  if (method == Method::score) return engine.score(request, recorded.output_ids);
  return engine.generate_and_wait(std::move(request));
}

/// The first output position where the recorded token is not the engine's, if any. Teacher-forced results hold the
/// recorded ids and say whether each was chosen; generated results hold the engine's own ids.
std::optional<std::size_t> first_difference(const RecordedChoice& recorded,
                                            const GenerationResult& result) {
  const std::size_t common = std::min(recorded.output_ids.size(), result.tokens.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!result.tokens[i].chosen || result.tokens[i].id != recorded.output_ids[i]) return i;
  }
  if (recorded.output_ids.size() != result.tokens.size()) return common;
  return std::nullopt;
}

/// The first row whose digest differs from the recorded one, if rows were recorded.
std::optional<std::size_t> first_other_row(const RecordedChoice& recorded,
                                           const GenerationResult& result) {
  const std::size_t common = std::min(recorded.row_digest8.size(), result.tokens.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (recorded.row_digest8[i] != to_hex(result.tokens[i].row_digest8)) return i;
  }
  return std::nullopt;
}

/// Bytes of the recorded text before output token `position`.
std::optional<std::size_t> character_of(const local_engine::Engine& engine,
                                        const RecordedChoice& recorded, std::size_t position) {
  const auto tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) return std::nullopt;
  const std::vector<TokenId> before(
      recorded.output_ids.begin(),
      recorded.output_ids.begin() + static_cast<std::ptrdiff_t>(position));
  return local_engine::answer_text(tokenizer, recorded.request, before).size();
}

void describe_position(const local_engine::Engine& engine, const RecordedChoice& recorded,
                       const GenerationResult& result, std::size_t position, Verdict& verdict) {
  verdict.position = position;
  verdict.character = character_of(engine, recorded, position);
  if (position < recorded.output_ids.size()) verdict.expected = recorded.output_ids[position];
  if (position < result.tokens.size()) {
    const local_engine::TokenInfo& token = result.tokens[position];
    verdict.got = token.best;
    verdict.margin = token.margin;
    verdict.deficit = token.deficit;
  }
  name_tokens(engine, verdict);
}

}  // namespace

void compare_choice(local_engine::Engine& engine, const RecordedChoice& recorded, Method method,
                    Verdict& verdict) {
  const std::size_t positions = recorded.request.prompt_ids.size() + recorded.output_ids.size();
  if (positions > engine.kv_positions_max()) {
    verdict.kind = VerdictKind::not_replayable;
    verdict.reason = "memory";
    verdict.detail = std::to_string(positions) + " positions need more KV cache than " +
                     std::to_string(engine.kv_positions_max()) + " have here";
    return;
  }
  const auto result = compute(engine, recorded, method);
  if (!result) {
    verdict.kind = VerdictKind::not_replayable;
    verdict.reason = result.error().code == Errc::out_of_range ? "range" : "malformed_record";
    verdict.detail = result.error().message();
    return;
  }
  verdict.tokens += recorded.output_ids.size();
  keep_trace(*result, verdict);
  check_fingerprint(recorded, *result, verdict);

  const auto token = first_difference(recorded, *result);
  const auto row = first_other_row(recorded, *result);
  const bool same_digest = result->logits_digest.hex() == recorded.logits_digest;
  if (!token && !row && (same_digest || recorded.logits_digest.empty())) {
    verdict.kind = same_digest ? VerdictKind::bitwise : VerdictKind::token_exact;
    if (!verdict.fingerprint || verdict.fingerprint->exact == verdict.fingerprint->chunks) return;
    verdict.kind = VerdictKind::diverged;
    verdict.reason = "fingerprint";
    verdict.detail =
        "the recorded activation fingerprint is not the engine's, of the same weights and profile";
    return;
  }
  verdict.kind = VerdictKind::diverged;
  const bool rows_agree = !row && !recorded.row_digest8.empty();
  if (token && (!row || *token < *row)) {
    // The rows before agree: the same model saw the same text, and this token is not what it chose there.
    verdict.reason =
        *token < std::min(recorded.output_ids.size(), result->tokens.size()) ? "token" : "length";
    verdict.detail = rows_agree
                         ? "every row of logits is as recorded, but the recorded token is not the "
                           "engine's choice: "
                           "another seed or other sampling parameters, or an edited output"
                         : "the recorded token is not the engine's choice";
    verdict.hypotheses = verdict.reason == "length" ? Hypotheses{"truncated", "edited"}
                         : rows_agree               ? Hypotheses{"sampling", "edited"}
                                      : Hypotheses{"weights", "prompt", "sampling", "edited"};
    describe_position(engine, recorded, *result, *token, verdict);
    return;
  }
  verdict.reason = "logits";
  if (row && same_digest) {
    verdict.hypotheses = {"edited"};
    verdict.detail =
        "the digest over all logits is the engine's, that of this row is not: an edited record";
    describe_position(engine, recorded, *result, *row, verdict);
    return;
  }
  verdict.hypotheses = row && *row == 0 ? Hypotheses{"weights", "prompt"}
                       : row            ? Hypotheses{"edited", "weights"}
                                        : Hypotheses{"edited"};
  verdict.detail =
      row ? (*row == 0
                 ? "the first row of logits differs: other weights, another prompt or another "
                   "template"
                 : "the rows of logits differ from here on: an edited output, or other weights")
          : "the rows agree in their first bytes, the digest over them does not: an edited record";
  describe_position(engine, recorded, *result, row.value_or(0), verdict);
}

}  // namespace verbatim::replay
