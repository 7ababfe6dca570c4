#include "local_engine/text/unigram.hpp"

#include "local_engine/text/fault.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>
#include <cstdio>

namespace verbatim::local_engine {

namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores,
                 std::optional<TokenId> unk, bool byte_fallback)
    : vocabulary_(vocabulary),
      scores_(std::move(scores)),
      unk_(unk),
      byte_fallback_(byte_fallback) {
  double lowest = 0;
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    lowest = i == 0 ? scores_[i] : std::min(lowest, scores_[i]);
    const auto text = vocabulary_.text(static_cast<TokenId>(i));
    if (text && !text->empty()) trie_.add(*text, static_cast<TokenId>(i));
  }
  unk_score_ = lowest - kUnknownPenalty;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_ids_[byte] = vocabulary_.find(name).value_or(-1);
  }
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& out) const {
  struct Node {
    double score = 0;
    std::size_t start = std::string_view::npos;  // where the token that ends here begins
    TokenId id = 0;
  };
  constexpr TokenId kUnknown = -1;
  std::vector<Node> best(piece.size() + 1);
  const auto offer = [&](std::size_t start, std::size_t end, TokenId id, double score) {
    Node& node = best[end];
    if (node.start == std::string_view::npos || score > node.score) node = {score, start, id};
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t size = code_point_at(piece, at).size;
    const double so_far = best[at].score;
    bool single = false;  // the character itself is a token
    trie_.match(piece, at, [&](std::size_t length, TokenId id) {
      offer(at, at + length, id, scores_[static_cast<std::size_t>(id)] + so_far);
      single = single || length == size;
    });
    if (!single) offer(at, at + size, kUnknown, unk_score_ + so_far);
    at += size;
  }
  struct Step {
    std::size_t start;
    std::size_t end;
    TokenId id;
    bool unknown;
  };
  std::vector<Step> path;  // from the end to the start
  for (std::size_t end = piece.size(); end > 0; end = best[end].start) {
    const Node& node = best[end];
    const bool unknown = node.id == kUnknown || node.id == unk_;
    if (unknown && !path.empty() && path.back().unknown) {
      path.back().start = node.start;  // neighbouring unknown characters are one
    } else {
      path.push_back({node.start, end, node.id, unknown});
    }
  }
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    if (step->unknown) {
      add_unknown(piece.substr(step->start, step->end - step->start), out);
    } else {
      out.push_back(step->id);
    }
  }
}

void Unigram::add_unknown(std::string_view text, std::vector<TokenId>& out) const {
  if (const auto id = vocabulary_.find(text)) {
    out.push_back(*id);
    return;
  }
  const std::string bytes = restore_invalid_bytes(text);
  const bool invalid = bytes.size() != text.size();
  const bool all = std::all_of(bytes.begin(), bytes.end(), [&](char c) {
    return byte_ids_[static_cast<unsigned char>(c)] >= 0;
  });
  if (byte_fallback_ && all) {
    for (const char c : bytes) out.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    return;
  }
  if (invalid) malformed("text is not UTF-8, and the tokenizer has no token for its bytes");
  if (!unk_) malformed("text has a character that the tokenizer has no token for");
  out.push_back(*unk_);
}

}  // namespace verbatim::local_engine
