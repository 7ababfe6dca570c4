#pragma once
// tokenizer.json's decoders: from the texts of tokens to the text.
//
// A decoder is a chain of stages through which tokens flow, so that decoding a whole sequence and decoding it token by
// token are the same code. A stage gives text on as soon as no later token can change it.

#include "schema/canonical_json.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// One stage, or the end of the chain. A token is any number of text() calls and one end_token(). Text is
/// whole characters of well-formed UTF-8.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void text(std::string_view chunk) = 0;
  virtual void end_token() = 0;
  /// No more tokens come.
  virtual void finish() = 0;
};

/// Makes a stage that gives its output to `next`, which must outlive it.
using DecodeStageFactory = std::function<std::unique_ptr<DecodeStage>(DecodeStage& next)>;

/// The stages in order. Immutable; may be used from any thread.
using Decoder = std::vector<DecodeStageFactory>;

/// Reads the "decoder" member; for JSON null, tokens are joined by spaces. Supported: Sequence, ByteLevel, ByteFallback,
/// Fuse, Strip, Replace, Metaspace, BPEDecoder. Throws Fault: `unsupported` with the name of any other type.
[[nodiscard]] Decoder read_decoder(const Json* json);

/// The decoder of SentencePiece models: U+2581 to space, <0xXX> to bytes, and `strip_space` drops one space in front.
[[nodiscard]] Decoder make_spm_decoder(bool strip_space);

/// A chain in use: one sequence of tokens.
class Decoding {
 public:
  explicit Decoding(const Decoder& decoder);
  /// The next token's text. Returns what is now certain of the output.
  [[nodiscard]] std::string push(std::string_view token);
  [[nodiscard]] std::string finish();

 private:
  class End final : public DecodeStage {
   public:
    void text(std::string_view chunk) override { out += chunk; }
    void end_token() override {}
    void finish() override {}
    std::string out;
  };
  std::unique_ptr<End> end_;                          // on the heap: stages refer to it
  std::vector<std::unique_ptr<DecodeStage>> stages_;  // last stage first
};

}  // namespace verbatim::local_engine
