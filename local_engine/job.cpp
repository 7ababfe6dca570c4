#include "local_engine/job.hpp"

#include "kernels/logits/logits.hpp"
#include "schema/canonical_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace verbatim::local_engine {
namespace {

Error wrong(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }

Result<void> check_sampling(const SamplingParams& params, std::size_t vocab_size) {
  const struct {
    const char* name;
    double value, min, max;
  } ranges[] = {{"temperature", params.temperature, 0, 1e6},
                {"top_p", params.top_p, 0, 1},
                {"min_p", params.min_p, 0, 1},
                {"repetition_penalty", params.repetition_penalty, 1e-6, 1e6},
                {"frequency_penalty", params.frequency_penalty, -1e6, 1e6},
                {"presence_penalty", params.presence_penalty, -1e6, 1e6}};
  for (const auto& range : ranges) {
    if (!(range.value >= range.min && range.value <= range.max))
      return wrong(std::string(range.name) + " must be from " + ecmascript_number(range.min) +
                   " to " + ecmascript_number(range.max));
  }
  if (params.top_p == 0) return wrong("top_p must be above 0: it would keep no token");
  // A temperature that f32 cannot hold would divide by zero.
  if (params.temperature > 0 && static_cast<float>(params.temperature) == 0)
    return wrong("temperature is too small for f32");
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size)
      return wrong("logit_bias names token " + std::to_string(id) +
                   ", which is not in the vocabulary");
    if (!(std::abs(bias) <= 1e6)) return wrong("a logit_bias must be from -1000000 to 1000000");
  }
  return {};
}

Result<void> check_ids(std::span<const TokenId> ids, std::size_t vocab_size) {
  for (const auto id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size)
      return wrong("token id " + std::to_string(id) + " is not in the vocabulary of " +
                   std::to_string(vocab_size));
  }
  return {};
}

}  // namespace

Job::Job(const JobContext& context, GenerationRequest request,
         std::optional<std::vector<TokenId>> forced, OnToken on_token, Done done)
    : kv(context.layers),
      context_(context),
      request_(std::move(request)),
      scoring_(forced.has_value()),
      on_token_(std::move(on_token)),
      done_(std::move(done)),
      ids_(request_.prompt_ids),
      prompt_(ids_.size()),
      bias_(request_.sampling.logit_bias.begin(), request_.sampling.logit_bias.end()),
      text_(context.tokenizer, scoring_ ? std::vector<std::string>{} : request_.stop,
            token_before(request_)) {
  const std::size_t room = context.context_max - std::min(prompt_, context.context_max);
  outputs_max_ = scoring_ ? forced->size() : std::min<std::size_t>(request_.tokens_max, room);
  if (scoring_) ids_.insert(ids_.end(), forced->begin(), forced->end());
  // The last token of an output is chosen, but never fed.
  feed_end_ = scoring_ && !forced->empty() ? ids_.size() - 1 : prompt_;
  result_.prompt_tokens = prompt_;
  if (request_.layer_detail != LayerDetail::none)
    result_.layer_digests.emplace(request_.layer_detail);
  if (request_.top_activations) activations_.emplace(context.hidden_size);
}

Result<void> Job::validate() const {
  if (prompt_ == 0) return wrong("the prompt is empty");
  if (ids_.size() > context_.context_max)
    return wrong(std::to_string(ids_.size()) + " tokens are longer than the model's context of " +
                 std::to_string(context_.context_max));
  if (const auto checked = check_ids(ids_, context_.vocab_size); !checked) return checked;
  if (!scoring_) {
    for (const auto& stop : request_.stop) {
      if (stop.empty()) return wrong("a stop sequence is empty");
    }
    if (!request_.stop.empty() && context_.tokenizer == nullptr)
      return wrong("a stop sequence needs a tokenizer, and the model has none");
  }
  return check_sampling(request_.sampling, context_.vocab_size);
}

std::size_t Job::positions_max() const { return prompt_ + outputs_max_ - (empty() ? 0 : 1); }

void Job::skip(std::size_t positions) {
  VERBATIM_CHECK(fed_ == 0 && positions < prompt_);
  fed_ = positions;
  result_.cached_prompt_tokens = positions;
}

void Job::restart() {
  kv.clear();
  fed_ = 0;
  blocks_reserved = 0;
  restarted_ = true;
  result_.cached_prompt_tokens = 0;
  if (!result_.layer_digests) return;
  result_.layer_digests.emplace(request_.layer_detail);
  seen_again_ = result_.tokens.size();
}

std::vector<kernels::TokenCount> Job::seen_before(std::size_t index) const {
  const auto& params = request_.sampling;
  if (params.repetition_penalty == 1 && params.frequency_penalty == 0 &&
      params.presence_penalty == 0)
    return {};
  std::map<TokenId, kernels::TokenCount> counts;
  const std::size_t end = prompt_ + index;
  const std::size_t window = params.penalty_window == 0 ? end : params.penalty_window;
  for (std::size_t i = end - std::min(end, window); i < end; ++i) {
    auto& count = counts[ids_[i]];
    count.id = ids_[i];
    ++(i < prompt_ ? count.in_prompt : count.in_output);
  }
  std::vector<kernels::TokenCount> seen;
  for (const auto& [id, count] : counts) seen.push_back(count);
  return seen;
}

RowOutcome Job::evaluate(kernels::Backend backend, std::span<const float> logits,
                         std::size_t index) const {
  RowOutcome outcome;
  outcome.finite = kernels::all_finite(backend, logits);
  if (!outcome.finite) return outcome;
  outcome.digest = kernels::row_digest(logits);

  const auto& sampling = request_.sampling;
  const auto seen = seen_before(index);
  kernels::SamplerParams params;
  params.bias = bias_;
  params.seen = seen;
  params.repetition_penalty = sampling.repetition_penalty;
  params.frequency_penalty = sampling.frequency_penalty;
  params.presence_penalty = sampling.presence_penalty;
  params.temperature = sampling.temperature;
  params.top_k = sampling.top_k;
  params.min_p = sampling.min_p;
  params.top_p = sampling.top_p;
  params.seed = sampling.seed;
  params.position = static_cast<std::uint32_t>(prompt_ + index);
  params.choice = sampling.choice;
  const TokenId given = scoring_ ? ids_[prompt_ + index] : -1;
  const auto choice = kernels::choose_token(backend, logits, params, given);
  outcome.finite = choice.id >= 0;
  if (!outcome.finite) return outcome;

  TokenInfo& info = outcome.info;
  info.id = scoring_ ? given : choice.id;
  info.best = choice.id;
  info.chosen = info.id == choice.id;
  info.margin = choice.margin;
  info.deficit = scoring_ ? choice.deficit : 0;
  const auto norm = kernels::log_sum_exp(backend, logits);
  info.logprob = norm.logprob(logits[static_cast<std::size_t>(info.id)]);
  for (const auto id : request_.top_logprobs > 0 ? kernels::top_ids(logits, request_.top_logprobs)
                                                 : std::vector<TokenId>{})
    info.top.emplace_back(id, norm.logprob(logits[static_cast<std::size_t>(id)]));
  std::copy_n(outcome.digest.bytes.begin(), info.row_digest8.size(), info.row_digest8.begin());
  return outcome;
}

bool Job::is_eos(TokenId id) const {
  return std::find(context_.eos_ids.begin(), context_.eos_ids.end(), id) != context_.eos_ids.end();
}

bool Job::accept(RowOutcome outcome, std::span<const float> hidden) {
  if (first_output_us == 0) first_output_us = now_us;
  if (!outcome.finite) {
    fail({Errc::out_of_range,
          "output token " + std::to_string(result_.tokens.size()) +
              ": NaN or infinity in the logits",
          "", "this model or request leaves the numerics profile"});
    return true;
  }
  // 1. What was computed. The row that chose EOS counts too.
  if (auto* digests = layer_digests())
    digests->add({LayerStage::kAfterLayers, Operator::logits},
                 prompt_ - 1 + result_.tokens.size() - seen_again_, outcome.info.row_digest8);
  if (seen_again_ > 0) {
    --seen_again_;
    return false;
  }
  if (result_.backends.empty() || result_.backends.back() != context_.backend)
    result_.backends.push_back(context_.backend);
  digest_.update(outcome.digest.view());
  if (activations_) activations_->add(hidden);
  TokenInfo info = std::move(outcome.info);
  const TokenId id = info.id;
  const bool full = result_.tokens.size() + 1 == outputs_max_;
  const bool eos = !request_.ignore_eos && is_eos(id) && (!scoring_ || full);

  // 2. Its text. The last token brings what was held back, so the pieces add up to the answer.
  OutputText::Piece piece;
  if (!eos) piece = text_.push(id);
  if ((eos || full) && piece.stop_sequence.empty()) {
    auto rest = text_.finish();
    piece.text += rest.text;
    piece.stop_sequence = std::move(rest.stop_sequence);
  }
  info.text = std::move(piece.text);
  result_.stop_sequence = piece.stop_sequence;
  give_out(std::move(info));

  // 3. Whether it was the last.
  if (eos || !result_.stop_sequence.empty()) {
    finish(FinishReason::stop);
    return true;
  }
  if (full) {
    finish(FinishReason::length);
    return true;
  }
  if (!scoring_) {
    ids_.push_back(id);
    feed_end_ = ids_.size();
  }
  return false;
}

void Job::give_out(TokenInfo info) {
  result_.text += info.text;
  result_.tokens.push_back(std::move(info));
  if (on_token_) on_token_(result_.tokens.back());
}

void Job::finish(FinishReason reason) {
  result_.finish = reason;
  result_.logits_digest = digest_.finish();
  if (activations_) result_.top_activations = activations_->finish();
  constexpr double kSecondsPerUs = 1e-6;
  const std::int64_t start = started_us == 0 ? now_us : started_us;
  const std::int64_t first = first_output_us == 0 ? now_us : first_output_us;
  result_.prefill_seconds = static_cast<double>(first - start) * kSecondsPerUs;
  result_.decode_seconds = static_cast<double>(now_us - first) * kSecondsPerUs;
  kv.clear();
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(result_));
}

void Job::fail(Error error) {
  kv.clear();
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(error));
}

}  // namespace verbatim::local_engine
