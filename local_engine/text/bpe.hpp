#pragma once
// Byte-pair encoding as Hugging Face's tokenizers do it: of all adjacent pairs that a merge rule names, the
// one with the lowest rank is merged, the leftmost first, until no rule applies.

#include "local_engine/text/flat_map.hpp"
#include "local_engine/text/vocabulary.hpp"
#include "local_engine/token.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

struct BpeOptions {
  std::optional<TokenId> unk;
  bool fuse_unk = false;  ///< neighbouring unknown characters become one unk
  bool byte_fallback =
      false;  ///< an unknown character becomes its bytes' <0xXX> tokens, if all exist
  bool ignore_merges = false;  ///< a piece that is itself a token is that token
  bool byte_level =
      false;  ///< pieces are bytes; the vocabulary writes them as byte_level.hpp's characters
  std::string continuing_subword_prefix;  ///< must be empty with byte_level
  std::string end_of_word_suffix;         ///< must be empty with byte_level
};

/// Immutable after construction; may be used from any thread. n log n in the piece's length.
class Bpe {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;

  /// `vocabulary` must outlive this. Throws Fault (`invalid_input`) if a merge names a token that is not there.
  Bpe(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options);

  /// Appends the ids of one piece: bytes with byte_level, else generalized UTF-8 (utf8.hpp). Throws Fault
  /// (`invalid_input`) for an invalid byte that no token stands for.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  /// May pieces be cut at SafeCuts without changing their ids?
  [[nodiscard]] bool can_cut() const { return can_cut_; }

 private:
  struct Merge {
    std::int32_t rank = 0;
    TokenId id = 0;
  };

  [[nodiscard]] const Merge* merge(TokenId left, TokenId right) const {
    return merges_.find((std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
                        static_cast<std::uint32_t>(right));
  }
  void add_merges(const Merges& merges);
  [[nodiscard]] bool may_cut(const Merges& merges) const;
  void split(std::string_view piece, std::vector<TokenId>& symbols) const;
  [[nodiscard]] bool add_byte_tokens(std::string_view character, std::vector<TokenId>& out) const;
  void merge_short(std::vector<TokenId>& symbols) const;
  void merge_long(std::vector<TokenId>& symbols) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  FlatMap<Merge> merges_;
  std::array<TokenId, 256>
      byte_ids_{};    // the token of each byte (byte level or fallback); -1: none
  Vocabulary bytes_;  // byte level: tokens by the bytes they stand for
  bool can_cut_ = false;
};

}  // namespace verbatim::local_engine
