#pragma once
// Where a text may be cut without changing how it is merged.

#include "local_engine/text/utf8.hpp"
#include "local_engine/text/vocabulary.hpp"

#include <string_view>
#include <unordered_set>

namespace verbatim::local_engine {

/// SentencePiece vocabularies merge over the whole text, but hardly any token has U+2581 (the space) after another
/// character. Between a character and a U+2581 that no token has side by side, no merge can happen: what lies left
/// and right of it is merged independently. So words can be encoded, and remembered, one by one.
class SafeCuts {
 public:
  /// Never cuts.
  SafeCuts() = default;
  explicit SafeCuts(const Vocabulary& vocabulary) {
    if (!vocabulary.find(kSpace)) return;  // an unknown space may be joined with its neighbours
    cuts_ = true;
    for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
      const std::string_view text = vocabulary.text(id).value_or("");
      for (std::size_t at = text.find(kSpace, 1); at != std::string_view::npos;
           at = text.find(kSpace, at + 1)) {
        before_.insert(code_point_before(text, at).value);
      }
    }
  }

  /// The first safe place after `at`, or the end of the text.
  [[nodiscard]] std::size_t next(std::string_view text, std::size_t at) const {
    if (!cuts_) return text.size();
    for (std::size_t cut = text.find(kSpace, at + 1); cut != std::string_view::npos;
         cut = text.find(kSpace, cut + 1)) {
      if (!before_.contains(code_point_before(text, cut).value)) return cut;
    }
    return text.size();
  }

 private:
  static constexpr std::string_view kSpace = "\xe2\x96\x81";
  bool cuts_ = false;
  std::unordered_set<char32_t> before_;  // characters that some token has before a U+2581
};

}  // namespace verbatim::local_engine
