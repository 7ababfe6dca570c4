#include "local_engine/text/bpe.hpp"

#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/fault.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>
#include <limits>
#include <queue>

namespace verbatim::local_engine {

namespace {

constexpr std::size_t kShort = 32;  // symbols; below it scanning beats a heap

std::string byte_token_name(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string name;
    if (options_.byte_level) {
      append_utf8(name, byte_character(static_cast<unsigned char>(byte)));
    } else {
      name = byte_token_name(static_cast<unsigned char>(byte));
    }
    byte_ids_[byte] = vocabulary_.find(name).value_or(-1);
  }
  if (options_.byte_level && options_.ignore_merges) {
    for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary_.size(); ++id) {
      const auto text = vocabulary_.text(id);
      if (!text) continue;
      if (const auto bytes = from_byte_characters(*text)) bytes_.add(*bytes, id);
    }
  }
  add_merges(merges);
  can_cut_ = may_cut(merges);
}

void Bpe::add_merges(const Merges& merges) {
  const std::size_t prefix = options_.continuing_subword_prefix.size();
  std::string joined;
  std::int32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const auto left_id = vocabulary_.find(left);
    const auto right_id = vocabulary_.find(right);
    if (!left_id || !right_id || right.size() < prefix) {
      malformed("merge " + std::to_string(rank) + " names a token that is not in the vocabulary");
    }
    joined = left;
    joined.append(right, prefix);
    const auto id = vocabulary_.find(joined);
    if (!id)
      malformed("merge " + std::to_string(rank) + " makes a token that is not in the vocabulary");
    merges_.set((std::uint64_t{static_cast<std::uint32_t>(*left_id)} << 32) |
                    static_cast<std::uint32_t>(*right_id),
                {rank, *id});
    ++rank;
  }
}

/// A merge of stand-ins (<0xXX>, unk) would join texts that their names do not show; prefixes and suffixes depend
/// on where a piece ends.
bool Bpe::may_cut(const Merges& merges) const {
  if (options_.byte_level || options_.ignore_merges ||
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
    return false;
  }
  const auto stands_in = [&](const std::string& text) {
    const auto id = vocabulary_.find(text);
    return id == options_.unk ||
           std::find(byte_ids_.begin(), byte_ids_.end(), *id) != byte_ids_.end();
  };
  const auto unk_text = options_.unk ? vocabulary_.text(*options_.unk) : std::nullopt;
  const auto may = [&](const std::string& text) {
    return text.starts_with("<0x") || text == unk_text;
  };
  return std::none_of(merges.begin(), merges.end(), [&](const auto& pair) {
    return (may(pair.first) && stands_in(pair.first)) ||
           (may(pair.second) && stands_in(pair.second));
  });
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  if (options_.ignore_merges) {
    const auto whole = (options_.byte_level ? bytes_ : vocabulary_).find(piece);
    if (whole) {
      out.push_back(*whole);
      return;
    }
  }
  std::vector<TokenId> symbols;
  split(piece, symbols);
  if (symbols.size() > 1) {
    if (symbols.size() <= kShort) {
      merge_short(symbols);
    } else {
      merge_long(symbols);
    }
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
}

/// The tokens of the single characters (or bytes), before any merge.
void Bpe::split(std::string_view piece, std::vector<TokenId>& symbols) const {
  symbols.reserve(piece.size());
  if (options_.byte_level) {
    for (const char c : piece) {
      const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
      if (id >= 0) {
        symbols.push_back(id);
      } else if (options_.unk) {
        if (symbols.empty() || !options_.fuse_unk || symbols.back() != *options_.unk) {
          symbols.push_back(*options_.unk);
        }
      }
    }
    return;
  }
  bool unk_pending = false;  // as in the original, bytes of a later character may overtake it
  const auto flush = [&] {
    if (unk_pending) symbols.push_back(*options_.unk);
    unk_pending = false;
  };
  std::string name;
  for (std::size_t at = 0; at < piece.size();) {
    const CodePoint point = code_point_at(piece, at);
    std::string_view character = piece.substr(at, point.size);
    const bool first = at == 0;
    at += point.size;
    if (is_escaped_byte(point.value)) {
      const TokenId id = byte_ids_[escaped_byte(point.value)];
      if (!options_.byte_fallback || id < 0)
        malformed("text is not UTF-8, and the tokenizer has no token for its bytes");
      symbols.push_back(id);
      continue;
    }
    if (!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
      name = first ? "" : options_.continuing_subword_prefix;
      name += character;
      if (at == piece.size()) name += options_.end_of_word_suffix;
      character = name;
    }
    if (const auto id = vocabulary_.find(character)) {
      flush();
      symbols.push_back(*id);
    } else if (options_.byte_fallback && add_byte_tokens(character, symbols)) {
      continue;
    } else if (options_.unk) {
      if (!options_.fuse_unk) flush();
      unk_pending = true;
    }
  }
  flush();
}

bool Bpe::add_byte_tokens(std::string_view character, std::vector<TokenId>& out) const {
  for (const char c : character) {
    if (byte_ids_[static_cast<unsigned char>(c)] < 0) return false;
  }
  for (const char c : character) out.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  return true;
}

/// Keeps the rank of every adjacent pair and looks for the lowest each time.
void Bpe::merge_short(std::vector<TokenId>& symbols) const {
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  std::array<Merge, kShort> pairs;  // pairs[i]: symbols i and i + 1
  std::size_t size = symbols.size();
  const auto pair_at = [&](std::size_t i) {
    if (i + 1 >= size) return Merge{kNone, 0};
    const Merge* found = merge(symbols[i], symbols[i + 1]);
    return found == nullptr ? Merge{kNone, 0} : *found;
  };
  for (std::size_t i = 0; i < size; ++i) pairs[i] = pair_at(i);
  while (size > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < size; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNone) break;
    symbols[best] = pairs[best].id;
    for (std::size_t i = best + 1; i + 1 < size; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = pairs[i + 1];
    }
    --size;
    pairs[best] = pair_at(best);
    if (best > 0) pairs[best - 1] = pair_at(best - 1);
  }
  symbols.resize(size);
}

/// A heap of candidate pairs over a linked list of symbols. Stale candidates are recognised when they come up.
void Bpe::merge_long(std::vector<TokenId>& symbols) const {
  constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::int32_t rank;
    std::uint32_t at;
    TokenId id;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  if (symbols.size() >= kEnd) malformed("text is too long");
  const auto size = static_cast<std::uint32_t>(symbols.size());
  std::vector<Link> links(size);
  std::vector<Candidate> initial;
  initial.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    links[i] = {i == 0 ? kEnd : i - 1, i + 1 == size ? kEnd : i + 1};
    if (i + 1 == size) break;
    if (const Merge* found = merge(symbols[i], symbols[i + 1])) {
      initial.push_back({found->rank, i, found->id});
    }
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(initial));
  const auto offer = [&](std::uint32_t at) {
    if (at == kEnd || links[at].next == kEnd) return;
    if (const Merge* found = merge(symbols[at], symbols[links[at].next])) {
      queue.push({found->rank, at, found->id});
    }
  };
  constexpr TokenId kGone = -1;
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    if (symbols[top.at] == kGone || links[top.at].next == kEnd) continue;
    const std::uint32_t right = links[top.at].next;
    const Merge* current = merge(symbols[top.at], symbols[right]);
    if (current == nullptr || current->id != top.id) continue;
    symbols[top.at] = top.id;
    symbols[right] = kGone;
    links[top.at].next = links[right].next;
    if (links[right].next != kEnd) links[links[right].next].previous = top.at;
    offer(links[top.at].previous);
    offer(top.at);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kGone), symbols.end());
}

}  // namespace verbatim::local_engine
