#pragma once
// tokenizer.json's pre-tokenizers: how the normalized text is cut into the pieces that the model sees.

#include "local_engine/text/pattern.hpp"
#include "schema/canonical_json.hpp"

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// A piece of text, borrowed from the caller's text or from Pieces::owned.
struct Piece {
  std::string_view text;
  bool at_start = false;  ///< It begins where the whole input begins.
};

struct Pieces {
  std::vector<Piece> list;
  std::deque<std::string>
      owned;  // texts that a stage has changed; a deque, so that views stay valid
};

/// Immutable; may be used from any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Cuts every piece further. Empty pieces are dropped. Throws Fault when a pattern exceeds its limit.
  virtual void apply(Pieces& pieces) const = 0;
};

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// A pre-tokenizer as a list of stages. When the last stage maps bytes to characters, it is left out of `stages` and
/// `byte_level` is set: the model then works on the bytes themselves, with the same result.
struct PreTokenization {
  std::vector<std::unique_ptr<const PreTokenizer>> stages;
  bool byte_level = false;
};

/// Reads the "pre_tokenizer" member; no stage for JSON null. Supported: Sequence, ByteLevel, Split, Digits,
/// Punctuation, Metaspace, Whitespace, WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer. Throws Fault:
/// `unsupported` with the name of any other type.
[[nodiscard]] PreTokenization read_pre_tokenizer(const Json* json);

/// For a model that cannot take bytes: makes the mapping of bytes to characters a stage after all.
void write_byte_characters(PreTokenization& pre);

/// A stage that cuts at a pattern.
[[nodiscard]] std::unique_ptr<const PreTokenizer> make_split(Pattern pattern,
                                                             SplitBehavior behavior, bool invert);

}  // namespace verbatim::local_engine
