#pragma once
// What the local engine says, in the words of the API that was called: whole, or event by event.

#include "gateway/local_request.hpp"
#include "schema/canonical_json.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// Which bytes an answer is written in: raised whenever the same results give others. A replay compares bytes where the
/// record was written in this format, and accuses nobody where it was not.
inline constexpr int kAnswerFormat = 1;

/// One choice as it stands.
struct LocalChoice {
  std::size_t given = 0;  ///< bytes of its text that a stream has given out
  local_engine::GenerationResult result;
  bool done = false;
};

/// Writes answers. Deterministic: id and time apart, the same results give the same bytes.
class LocalAnswer {
 public:
  /// All borrowed, for as long as the exchange. `fingerprint`: local_fingerprint() of what answers.
  LocalAnswer(Api api, const LocalQuestion& question, const local_engine::Engine& engine,
              std::string_view record_id, std::int64_t now_us, std::string fingerprint);

  /// The whole answer, once every choice is done.
  [[nodiscard]] std::string whole(const std::vector<LocalChoice>& choices) const;

  // A stream is begin(), for each token piece(), for each choice finish(), and end().
  [[nodiscard]] std::string begin() const;
  [[nodiscard]] std::string piece(std::size_t index, std::string_view text,
                                  const local_engine::TokenInfo* token) const;
  [[nodiscard]] std::string finish(std::size_t index, const LocalChoice& choice) const;
  [[nodiscard]] std::string end(const std::vector<LocalChoice>& choices) const;

 private:
  using Ordered = nlohmann::ordered_json;

  [[nodiscard]] Ordered head(std::string_view object) const;
  [[nodiscard]] std::string event(const Ordered& data, std::string_view name = "") const;
  [[nodiscard]] Ordered usage(const std::vector<LocalChoice>& choices) const;
  [[nodiscard]] Ordered whole_choice(std::size_t index, const LocalChoice& choice) const;
  [[nodiscard]] Ordered chat_logprob(const local_engine::TokenInfo& token) const;
  [[nodiscard]] Ordered chat_logprobs(const std::vector<local_engine::TokenInfo>& tokens) const;
  [[nodiscard]] Ordered completion_logprobs(
      const std::vector<local_engine::TokenInfo>& tokens) const;
  [[nodiscard]] Ordered chunk(Ordered choice) const;
  [[nodiscard]] std::string token_text(local_engine::TokenId id) const;
  [[nodiscard]] bool shows(const local_engine::TokenInfo& token) const;

  Api api_;
  const LocalQuestion& question_;
  const local_engine::Engine& engine_;
  std::string id_;
  std::int64_t created_s_;
  std::string fingerprint_;
};

/// `system_fingerprint`: a short digest of what decides the bits: build, profile and weights.
[[nodiscard]] std::string local_fingerprint(const local_engine::Engine& engine);
/// The same, of those three as a response leaf's `engine` has them.
[[nodiscard]] std::string local_fingerprint(std::string_view build, std::string_view profile,
                                            std::string_view weights_sha256);

/// `engine` of a response leaf, and its content `response.tokens`: all that a replay needs.
[[nodiscard]] Json describe_engine(const local_engine::Engine& engine,
                                   const std::vector<LocalChoice>& choices);
[[nodiscard]] std::string tokens_content(const LocalQuestion& question,
                                         const std::vector<LocalChoice>& choices);

/// Content `response.layers`, in at most `bytes_max` bytes of digests: schema/layer-digests.md. "" if no choice has
/// any, or none that fits.
[[nodiscard]] std::string layers_content(const std::vector<LocalChoice>& choices,
                                         std::size_t bytes_max);
/// Content `response.fingerprint`: schema/activation-fingerprint.md. "" if no choice has one.
[[nodiscard]] std::string fingerprint_content(const std::vector<LocalChoice>& choices);

/// `usage` of a response leaf.
[[nodiscard]] Json describe_usage(const LocalQuestion& question,
                                  const std::vector<LocalChoice>& choices);

/// GET /v1/models, or one of it.
[[nodiscard]] std::string models_body(bool anthropic, const std::vector<std::string>& names);
[[nodiscard]] std::string model_body(bool anthropic, const std::string& name);

}  // namespace verbatim::gateway
