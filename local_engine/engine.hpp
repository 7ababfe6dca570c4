#pragma once
// The local engine: loads a model, and generates or scores token sequences so that every bit of the
// result is a function of the request and the weights alone (kernels/profile.hpp).

#include "local_engine/activation_fingerprint.hpp"
#include "local_engine/chat_template.hpp"
#include "local_engine/fingerprint.hpp"
#include "local_engine/layer_digests.hpp"
#include "local_engine/token.hpp"
#include "local_engine/tokenizer.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::local_engine {

struct EngineOptions {
  std::string backend = "auto";  ///< scalar, avx2, avx512, cuda, auto (of the processor): same bits
  /// What becomes of requests where the backend is cuda, and the device is missing, fails or is out of memory: refuse
  /// (`unavailable`), or cpu, which serves them with the same bits, and goes on with those that had begun. For that the
  /// weights stay in the host's memory too.
  std::string cuda_fallback = "refuse";
  std::string profile = "f32-k256/1";     ///< or mma-hopper/1: other bits
  int threads = 0;                        ///< 0: all cores
  std::size_t batch_rows_max = 256;       ///< rows (tokens) in one forward pass
  std::size_t prefill_chunk = 256;        ///< prompt rows of one request in one pass
  std::size_t kv_bytes_max = 1ull << 30;  ///< beyond it requests wait
  std::size_t queue_max = 1024;           ///< waiting requests; more are refused with `unavailable`
  bool prefix_cache = true;
};

/// Sampling, in the order of numerics.md section 7. Temperature 0 is greedy.
struct SamplingParams {
  double temperature = 0;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  ///< index of the choice, for n > 1: part of the noise's counter
  std::uint32_t top_k = 0;   ///< 0: off
  double top_p = 1, min_p = 0;
  double repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  std::uint32_t penalty_window = 0;  ///< so many tokens back do penalties look; 0: at all
  std::map<TokenId, double> logit_bias;
};

struct GenerationRequest {
  std::vector<TokenId> prompt_ids;  ///< at least one
  SamplingParams sampling;
  std::uint32_t tokens_max = 256;  ///< also ends where the model's context does
  std::vector<std::string> stop;   ///< the text is cut before the first that occurs
  bool ignore_eos = false;
  /// The prompt is a text with which the answer goes on: the space that some decoders take from the front of a text stays.
  bool continues_text = false;
  std::uint32_t top_logprobs = 0;
  /// Digests of what the layers compute. They change no bit of the result; they cost time and memory, and
  /// such a request computes its whole prompt, whatever the prefix cache holds.
  LayerDetail layer_detail = LayerDetail::none;
  bool top_activations = false;  ///< what a fingerprint is made of; changes no bit either
};

enum class FinishReason { stop, length, cancelled };  // stop: EOS or a stop sequence

struct GenerationResult {
  std::vector<TokenInfo> tokens;  ///< output tokens, the EOS included when it ended the answer
  std::string text;               ///< without special tokens, cut at a stop sequence
  FinishReason finish = FinishReason::stop;
  std::string stop_sequence;  ///< the one that ended it, or ""
  Digest logits_digest;
  std::size_t prompt_tokens = 0;
  std::size_t cached_prompt_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  std::optional<LayerDigests> layer_digests;  ///< if asked for: of every position that was computed
  std::vector<TopActivations> top_activations;  ///< if asked for: of each 32 output tokens
  std::vector<std::string>
      backends;  ///< that computed the output, in order: more than one if it was moved
};

/// One running generation. Destroying it does not cancel; cancel() does.
class Generation {
 public:
  virtual ~Generation() = default;
  virtual void cancel() = 0;  ///< Any thread. `done` still runs, with FinishReason::cancelled.
};

/// Thread-safe. One thread of its own runs the batches.
class Engine {
 public:
  virtual ~Engine() = default;

  /// PATH: a Hugging Face folder (config.json, *.safetensors, tokenizer.json) or a .gguf.
  /// `not_found`, `invalid_input` (malformed), `unsupported` (by name), `storage_failed`.
  [[nodiscard]] static Result<std::shared_ptr<Engine>> load(const std::filesystem::path& path,
                                                            const EngineOptions& options);

  /// `on_token` and `done` run on the engine's thread, in order; `done` exactly once. Errors reach
  /// `done`: `invalid_input` (empty prompt, id out of range, longer than the context),
  /// `unavailable` (queue full, shutting down), `out_of_range` (NaN or infinity in a logit).
  /// TokenInfo.text seen by on_token is already held back so that no stop sequence is ever given
  /// out; the pieces add up to GenerationResult::text. Callbacks must not throw, nor wait for
  /// another request of this engine.
  virtual std::shared_ptr<Generation> generate(
      GenerationRequest request, std::function<void(const TokenInfo&)> on_token,
      std::function<void(Result<GenerationResult>)> done) = 0;
  [[nodiscard]] Result<GenerationResult> generate_and_wait(GenerationRequest request);

  /// Teacher-forced: one prefill over prompt and output. `request.tokens_max`, stop and ignore_eos
  /// do not matter. tokens[i] is about output_ids[i]; logits_digest as generate() would have made
  /// it. Recomputes the whole prefix: a replay never reads keys and values that a generation left
  /// in the prefix cache. Blocks; not from a callback.
  [[nodiscard]] virtual Result<GenerationResult> score(const GenerationRequest& request,
                                                       const std::vector<TokenId>& output_ids) = 0;

  [[nodiscard]] virtual const Fingerprint& fingerprint() const = 0;
  /// Null when the model has none (then only ids go in and out).
  [[nodiscard]] virtual std::shared_ptr<const Tokenizer> tokenizer() const = 0;
  [[nodiscard]] virtual std::shared_ptr<const ChatTemplate> chat_template() const = 0;
  [[nodiscard]] virtual std::string backend()
      const = 0;  ///< the one in use; may change with cuda_fallback
  /// Why the backend that was asked for does not serve, in one line; "" while it does.
  [[nodiscard]] virtual std::string fallback_reason() const { return ""; }
  [[nodiscard]] virtual std::string profile() const = 0;
  [[nodiscard]] virtual std::size_t context_max() const = 0;  ///< positions
  [[nodiscard]] virtual std::size_t vocab_size() const = 0;
  [[nodiscard]] virtual std::size_t hidden_size() const = 0;  ///< of the last hidden state
  /// Positions (prompt and answer) for which one request can have KV cache: EngineOptions::kv_bytes_max.
  [[nodiscard]] virtual std::size_t kv_positions_max() const { return SIZE_MAX; }
  /// Ends of sequence, from generation_config.json, config.json or the GGUF.
  [[nodiscard]] virtual const std::vector<TokenId>& eos_ids() const = 0;
  /// What generation_config.json has as `repetition_penalty`; 1 if it has none. This engine never takes it unasked;
  /// other servers do.
  [[nodiscard]] virtual float suggested_repetition_penalty() const { return 1; }
};

/// Whether this build computes under a numerics profile of this name.
[[nodiscard]] bool knows_profile(const std::string& name);

/// Whether an engine can be asked for these: a name that is none is `invalid_input`; what this build or machine has not,
/// `unsupported` or `unavailable`. No model is read.
[[nodiscard]] Result<void> check_backend(const EngineOptions& options);

/// Compiler, version and source digest of this build, as recorded beside every answer.
[[nodiscard]] std::string build_id();

}  // namespace verbatim::local_engine
