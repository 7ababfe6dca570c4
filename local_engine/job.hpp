#pragma once
// One generation or scoring on its way through the batches.

#include "kernels/sampling/sampling.hpp"
#include "local_engine/engine.hpp"
#include "local_engine/kv_cache.hpp"
#include "local_engine/output_text.hpp"
#include "schema/digest.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

/// What a job needs to know of its model.
struct JobContext {
  std::size_t layers = 0;
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t context_max = 0;
  std::vector<TokenId> eos_ids;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< may be null
  std::string backend;  ///< that computes now; written between passes, on the engine's thread
};

/// What one row of logits says: computed by any thread, from the row and the job's state before it.
struct RowOutcome {
  bool finite = true;
  Digest digest;
  TokenInfo info;
};

/// A sequence of known ids (the prompt; when scoring, the output too), how far it has been fed to
/// the model, and what came out. All members but `cancelled` belong to the engine's thread once the
/// job is submitted.
class Job {
 public:
  using OnToken = std::function<void(const TokenInfo&)>;
  using Done = std::function<void(Result<GenerationResult>)>;

  /// `forced`: the output to score, or nothing to generate.
  Job(const JobContext& context, GenerationRequest request,
      std::optional<std::vector<TokenId>> forced, OnToken on_token, Done done);

  /// `invalid_input`: empty prompt, id out of range, longer than the context, a sampling parameter
  /// or stop sequence that makes no sense.
  [[nodiscard]] Result<void> validate() const;

  [[nodiscard]] bool scoring() const { return scoring_; }
  /// Positions that will ever be fed; their keys and values need memory.
  [[nodiscard]] std::size_t positions_max() const;
  /// Nothing to compute: no output wanted, or none possible.
  [[nodiscard]] bool empty() const { return outputs_max_ == 0; }
  [[nodiscard]] std::span<const TokenId> ids() const { return ids_; }
  [[nodiscard]] std::size_t fed() const { return fed_; }
  /// Takes digests of the rows that are fed; null when the request asks for none.
  [[nodiscard]] LayerDigests* layer_digests() {
    return result_.layer_digests ? &*result_.layer_digests : nullptr;
  }
  /// Nothing of it may come from a cache.
  [[nodiscard]] bool computes_all() const {
    return scoring_ || restarted_ || result_.layer_digests.has_value();
  }
  /// Rows that could be computed now: 1 when decoding, more while prompt or forced output remain.
  [[nodiscard]] std::size_t pending() const { return feed_end_ - fed_; }
  [[nodiscard]] bool decoding() const { return fed_ >= prompt_ && !scoring_; }
  [[nodiscard]] bool wants_logits(std::size_t position) const {
    return position + 1 >= prompt_ + result_.tokens.size() - seen_again_;
  }
  void advance(std::size_t rows) { fed_ += rows; }
  /// Its keys and values are gone: everything is fed again, the outputs so far too. What comes out goes on where it was,
  /// since decoding and prefill have the same bits; digests of layers are made anew.
  void restart();
  /// The first `positions` are in the cache already.
  void skip(std::size_t positions);

  /// Digest, choice and log-probabilities of output `index`. Const: several rows of one job may be
  /// evaluated at once.
  [[nodiscard]] RowOutcome evaluate(kernels::Backend backend, std::span<const float> logits,
                                    std::size_t index) const;
  /// Takes the next output's row and its last hidden state; calls on_token. True when the job has
  /// reached its end.
  [[nodiscard]] bool accept(RowOutcome outcome, std::span<const float> hidden);
  /// Output index of the row at `position`.
  [[nodiscard]] std::size_t output_index(std::size_t position) const {
    return position + 1 - prompt_;
  }

  void finish(FinishReason reason);
  void fail(Error error);

  SequenceKv kv;
  std::size_t blocks_reserved = 0;  ///< of the memory bound, until the job ends
  std::atomic<bool> cancelled{false};
  std::int64_t started_us = 0, first_output_us = 0;
  std::int64_t now_us = 0;  ///< set by the scheduler before accept() and finish()

 private:
  [[nodiscard]] std::vector<kernels::TokenCount> seen_before(std::size_t index) const;
  void give_out(TokenInfo info);
  [[nodiscard]] bool is_eos(TokenId id) const;

  const JobContext& context_;
  GenerationRequest request_;
  bool scoring_;
  OnToken on_token_;
  Done done_;

  std::vector<TokenId> ids_;
  std::size_t prompt_ = 0, fed_ = 0;
  bool restarted_ = false;
  std::size_t seen_again_ = 0;   // outputs whose rows come once more, for their digests alone
  std::size_t feed_end_ = 0;     // ids_ that may be fed
  std::size_t outputs_max_ = 0;  // output tokens at most
  std::vector<std::pair<TokenId, double>> bias_;
  OutputText text_;
  Sha256 digest_;
  std::optional<ActivationCollector> activations_;
  GenerationResult result_;
};

}  // namespace verbatim::local_engine
