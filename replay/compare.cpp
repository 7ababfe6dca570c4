#include "replay/compare.hpp"

#include <algorithm>

namespace verbatim::replay {

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

namespace {

using local_engine::GenerationResult;
using local_engine::TokenId;

Result<GenerationResult> compute(local_engine::Engine& engine, const RecordedChoice& recorded,
                                 Method method) {
  if (method == Method::score) return engine.score(recorded.request, recorded.output_ids);
  return engine.generate_and_wait(recorded.request);
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
  return tokenizer->decode(before, true).size();
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

void compare_choice(local_engine::Engine& engine, const RecordedChoice& recorded,
                    const std::string& recorded_digest, Method method, Verdict& verdict) {
  const auto result = compute(engine, recorded, method);
  if (!result) {
    verdict.kind = VerdictKind::not_replayable;
    verdict.reason = result.error().code == Errc::out_of_range ? "range" : "malformed_record";
    verdict.detail = result.error().message();
    return;
  }
  verdict.tokens += recorded.output_ids.size();
  keep_trace(*result, verdict);

  const auto token = first_difference(recorded, *result);
  const bool same_digest = result->logits_digest.hex() == recorded_digest;
  if (!token && same_digest) {
    verdict.kind = VerdictKind::bitwise;
    return;
  }
  if (!token && recorded_digest.empty()) {
    verdict.kind = VerdictKind::token_exact;
    return;
  }
  verdict.kind = VerdictKind::diverged;
  const auto row = recorded_digest.empty() ? std::nullopt : first_other_row(recorded, *result);
  if (token && (!row || *token < *row)) {
    // The rows before agree: the same model saw the same text, and this token is not what it chose there.
    verdict.reason =
        *token < std::min(recorded.output_ids.size(), result->tokens.size()) ? "token" : "length";
    verdict.detail = row || recorded_digest.empty()
                         ? "the recorded token is not the engine's choice"
                         : "every row of logits is as recorded, but the recorded token is not the "
                           "engine's choice: "
                           "another seed or other sampling parameters, or an edited output";
    describe_position(engine, recorded, *result, *token, verdict);
    return;
  }
  verdict.reason = "logits";
  verdict.detail =
      row ? (*row == 0
                 ? "the first row of logits differs: other weights, another prompt or another "
                   "template"
                 : "the rows of logits differ from here on: an edited output, or other weights")
          : "the rows agree in their first bytes, the digest over them does not: an edited record";
  describe_position(engine, recorded, *result, row.value_or(0), verdict);
}

}  // namespace verbatim::replay
