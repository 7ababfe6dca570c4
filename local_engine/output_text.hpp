#pragma once
// The text of a running answer: decoded token by token, cut before the first stop sequence.

#include "local_engine/tokenizer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// Text that might be the beginning of a stop sequence is held back until it is known not to be
/// one, so nothing that push() or finish() gives out is ever taken back.
class OutputText {
 public:
  /// Without a tokenizer all text is empty. Stop sequences are not empty.
  /// `behind`: what goes before, of which nothing is given out.
  OutputText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop,
             std::optional<TokenId> behind = std::nullopt);

  struct Piece {
    std::string text;           ///< what may now be given out
    std::string stop_sequence;  ///< the one that ended the text, or ""
  };
  /// After a stop sequence nothing more comes.
  [[nodiscard]] Piece push(TokenId id);
  /// The end: what was held back, and what the decoder makes of an unfinished character.
  [[nodiscard]] Piece finish();

 private:
  Piece release(std::string more, bool last);

  std::optional<StreamDecoder> decoder_;
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

struct GenerationRequest;

/// What goes before the answer's text, if it goes on with one.
[[nodiscard]] std::optional<TokenId> token_before(const GenerationRequest& request);

/// All that `ids` say as an answer to the request, stop sequences included. The tokenizer is not null.
[[nodiscard]] std::string answer_text(std::shared_ptr<const Tokenizer> tokenizer,
                                      const GenerationRequest& request,
                                      const std::vector<TokenId>& ids);

}  // namespace verbatim::local_engine
