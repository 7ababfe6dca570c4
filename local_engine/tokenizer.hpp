#pragma once
// Text to token ids and back. Exact: the ids are those of the model's own tokenizer.

#include "local_engine/token.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

struct EncodeOptions {
  bool add_special = true;    ///< Add BOS/EOS as the tokenizer's own rules say.
  bool parse_special = true;  ///< Names of special tokens in the text become those tokens.
};

/// A sequence being decoded token by token: see StreamDecoder.
class DecodeStream {
 public:
  virtual ~DecodeStream() = default;
  [[nodiscard]] virtual std::string push(TokenId id) = 0;
  [[nodiscard]] virtual std::string finish() = 0;
};

/// Immutable; may be used from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// `path`: a folder with tokenizer.json, a tokenizer.json, or a .gguf. `not_found`, `invalid_input`, or
  /// `unsupported` with the name of what is not supported: never an approximation.
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> load(
      const std::filesystem::path& path);

  /// Input need not be valid UTF-8: invalid bytes go through byte fallback, or are `invalid_input` where
  /// the tokenizer has none. Linear time in text.size() up to the pieces' length.
  [[nodiscard]] virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                                            const EncodeOptions& options) const = 0;
  /// Ids out of range are skipped. Exactly the model's own decoder, e.g. a leading space stripped once.
  [[nodiscard]] virtual std::string decode(const std::vector<TokenId>& ids,
                                           bool skip_special) const = 0;

  /// A new sequence. The tokenizer must outlive it. This default gives everything out at the end; a tokenizer
  /// that can say earlier what no later token changes overrides it.
  [[nodiscard]] virtual std::unique_ptr<DecodeStream> decode_stream(bool skip_special) const;

  /// A text of n bytes never encodes to fewer than n / text_bytes_per_token_max() tokens: what is too long for a model can
  /// be refused without encoding it. Absent where the tokenizer's rules allow no such bound (they drop text, or join
  /// any number of characters into one token), and where nobody has worked one out.
  [[nodiscard]] virtual std::optional<std::size_t> text_bytes_per_token_max() const {
    return std::nullopt;
  }

  /// One more than the highest id.
  [[nodiscard]] virtual std::size_t vocab_size() const = 0;
  [[nodiscard]] virtual std::optional<TokenId> bos() const = 0;
  [[nodiscard]] virtual std::optional<TokenId> eos() const = 0;
  /// The special tokens' names, for templates: "" if there is none.
  [[nodiscard]] virtual std::string token_text(TokenId id) const = 0;
  [[nodiscard]] virtual std::optional<TokenId> token_id(std::string_view text) const = 0;
  [[nodiscard]] virtual bool is_special(TokenId id) const = 0;
  /// SHA-256 of what defines it: the tokenizer.json, or the canonical form of the GGUF's vocabulary.
  [[nodiscard]] virtual Digest sha256() const = 0;
};

/// Decodes a sequence token by token. The concatenation of what push() and finish() return equals
/// decode() of all ids, and no piece ends inside a UTF-8 character that a later token completes.
class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  [[nodiscard]] std::string push(TokenId id);
  [[nodiscard]] std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;  // the stream refers to it
  std::unique_ptr<DecodeStream> stream_;
};

}  // namespace verbatim::local_engine
