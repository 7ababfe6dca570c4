#include "local_engine/text/added_tokens.hpp"

#include "local_engine/text/utf8.hpp"

#include <algorithm>

namespace verbatim::local_engine {

namespace {

bool word_before(std::string_view text, std::size_t at) {
  return at > 0 && is_word_character(code_point_before(text, at).value);
}

bool word_after(std::string_view text, std::size_t at) {
  return at < text.size() && is_word_character(code_point_at(text, at).value);
}

std::size_t skip_space_back(std::string_view text, std::size_t at, std::size_t limit) {
  while (at > limit) {
    const CodePoint point = code_point_before(text, at);
    if (!is_white_space(point.value) || at - point.size < limit) break;
    at -= point.size;
  }
  return at;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!is_white_space(point.value)) break;
    at += point.size;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  // Special tokens come first, so that they win where two tokens have the same text.
  std::stable_partition(tokens_.begin(), tokens_.end(),
                        [](const AddedToken& token) { return token.special; });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_content_.emplace(token.content, token.id);
    std::string content = token.content;
    if (token.normalized && normalizer != nullptr) content = normalizer->apply(std::move(content));
    if (content.empty()) continue;
    (token.normalized ? normalized_ : raw_).add(content, static_cast<std::int32_t>(i));
  }
}

void AddedTokens::split(std::string_view text, bool at_start, bool normalized, bool parse_special,
                        std::vector<TokenOrText>& out) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  std::size_t done = 0;  // everything before is given out
  const auto give_text = [&](std::size_t end) {
    if (done < end) out.push_back({-1, text.substr(done, end - done), at_start && done == 0});
  };
  std::size_t at = trie.empty() ? text.size() : 0;
  while (at < text.size()) {
    std::size_t size = 0;
    std::int32_t index = -1;
    if (trie.may_start(text[at])) {
      trie.match(text, at, [&](std::size_t length, std::int32_t value) {
        size = length;
        index = value;
      });
    }
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
    std::size_t start = at;
    std::size_t end = at + size;
    at = end;  // also when the match is passed over
    if (token.special && !parse_special) continue;
    if (token.single_word && (word_before(text, start) || word_after(text, end))) continue;
    if (token.lstrip) start = skip_space_back(text, start, std::min(done, start));
    if (token.rstrip) end = skip_space(text, end);
    give_text(start);
    out.push_back({token.id, text.substr(start, end - start), at_start && start == 0});
    done = end;
  }
  give_text(text.size());
}

bool AddedTokens::is_special(TokenId id) const {
  const AddedToken* token = find(id);
  return token != nullptr && token->special;
}

std::optional<TokenId> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace verbatim::local_engine
