#include "local_engine/text/spm.hpp"

#include "local_engine/text/fault.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <queue>

namespace verbatim::local_engine {

namespace {

constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

struct Symbol {
  std::uint32_t previous;
  std::uint32_t next;
  std::uint32_t start;
  std::uint32_t size;  // bytes; 0 when merged into its left neighbour
};

struct Candidate {
  float score;
  std::uint32_t left;
  std::uint32_t right;
  std::uint32_t size;  // bytes of both together when this was made
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

/// One symbol a character; a byte that begins no whole character is a symbol of its own.
std::vector<Symbol> characters(std::string_view text) {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_size(static_cast<unsigned char>(text[at]));
    const bool whole = valid_utf8_prefix(text.substr(at, size)) == size;
    const auto index = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({index == 0 ? kEnd : index - 1, index + 1, static_cast<std::uint32_t>(at),
                       static_cast<std::uint32_t>(whole ? size : 1)});
    at += symbols.back().size;
  }
  if (!symbols.empty()) symbols.back().next = kEnd;
  return symbols;
}

}  // namespace

Spm::Spm(const Vocabulary& vocabulary, std::vector<float> scores)
    : vocabulary_(vocabulary), scores_(std::move(scores)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    const char raw = static_cast<char>(byte);
    byte_ids_[byte] =
        vocabulary_.find(name).value_or(vocabulary_.find(std::string_view(&raw, 1)).value_or(-1));
  }
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary_.size(); ++id) {
    token_bytes_max_ = std::max(token_bytes_max_, vocabulary_.text(id).value_or("").size());
  }
}

void Spm::encode(std::string_view text, std::vector<TokenId>& out) const {
  if (text.size() >= kEnd) malformed("text is too long");
  std::vector<Symbol> symbols = characters(text);
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::uint32_t left, std::uint32_t right) {
    if (left == kEnd || right == kEnd) return;
    const std::uint32_t size = symbols[left].size + symbols[right].size;
    if (size > token_bytes_max_) return;
    const auto id = vocabulary_.find(text.substr(symbols[left].start, size));
    if (id) queue.push({scores_[static_cast<std::size_t>(*id)], left, right, size});
  };
  for (std::uint32_t i = 0; i < symbols.size(); ++i) offer(i, symbols[i].next);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.left];
    Symbol& right = symbols[top.right];
    if (left.size == 0 || right.size == 0 || left.size + right.size != top.size) continue;
    left.size = top.size;
    right.size = 0;
    left.next = right.next;
    if (right.next != kEnd) symbols[right.next].previous = top.left;
    offer(left.previous, top.left);
    offer(top.left, left.next);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    const std::string_view piece = text.substr(symbol.start, symbol.size);
    if (const auto id = vocabulary_.find(piece)) {
      out.push_back(*id);
      continue;
    }
    for (const char c : piece) {
      const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
      if (id < 0) malformed("text has a byte that the tokenizer has no token for");
      out.push_back(id);
    }
  }
}

}  // namespace verbatim::local_engine
