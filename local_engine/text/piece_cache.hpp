#pragma once
// Remembers the ids of pieces within one text: the words of a text repeat.

#include "local_engine/token.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// Lives as long as one call of encode(): entries borrow their pieces from the text and their ids from the output,
/// so remembering a piece copies nothing. Only speed depends on it.
class PieceCache {
 public:
  explicit PieceCache(std::size_t text_bytes) {
    if (text_bytes < kTextBytesMin) return;
    std::size_t size = 256;
    while (size < kEntriesMax && size < text_bytes / 8) size *= 2;
    entries_.resize(size);
  }

  /// Appends the ids of `piece` to `out`: from an earlier place in it, or by encode(piece, out).
  template <class Encode>
  void append(std::string_view piece, std::vector<TokenId>& out, const Encode& encode) {
    if (entries_.empty() || piece.size() > kPieceBytesMax) {
      encode(piece, out);
      return;
    }
    Entry& entry = entries_[std::hash<std::string_view>{}(piece) & (entries_.size() - 1)];
    if (entry.piece == piece && entry.piece.data() != nullptr) {
      for (std::size_t i = 0; i < entry.count; ++i) out.push_back(out[entry.start + i]);
      return;
    }
    const std::size_t start = out.size();
    encode(piece, out);
    entry = {piece, start, out.size() - start};
  }

 private:
  static constexpr std::size_t kTextBytesMin = 256;
  static constexpr std::size_t kPieceBytesMax = 128;
  static constexpr std::size_t kEntriesMax = 1 << 15;
  struct Entry {
    std::string_view piece;
    std::size_t start = 0;
    std::size_t count = 0;
  };
  std::vector<Entry> entries_;  // direct-mapped; a power of two of them, or none
};

}  // namespace verbatim::local_engine
