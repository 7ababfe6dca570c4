#include "local_engine/text/special_tokens.hpp"

#include <algorithm>

namespace verbatim::local_engine {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

SpecialTokens::SpecialTokens(const GgufVocabulary& vocabulary) : vocabulary_(vocabulary) {
  for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
    const GgufTokenType type = vocabulary_.tokens[i].type;
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = vocabulary_.texts.text(id).value_or("");
    if (text.empty() || (type != GgufTokenType::control && type != GgufTokenType::unknown &&
                         type != GgufTokenType::user_defined)) {
      continue;
    }
    trie_.add(text, id);
  }
}

std::vector<TokenId> SpecialTokens::occurring(std::string_view text, bool parse_special) const {
  std::vector<bool> seen(vocabulary_.tokens.size());
  std::vector<TokenId> ids;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!trie_.may_start(text[at])) continue;
    trie_.match(text, at, [&](std::size_t /*length*/, TokenId id) {
      const auto i = static_cast<std::size_t>(id);
      if (seen[i] ||
          (!parse_special && vocabulary_.tokens[i].type != GgufTokenType::user_defined)) {
        return;
      }
      seen[i] = true;
      ids.push_back(id);
    });
  }
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    const std::size_t a_size = vocabulary_.texts.text(a)->size();
    const std::size_t b_size = vocabulary_.texts.text(b)->size();
    return a_size != b_size ? a_size > b_size : a < b;
  });
  return ids;
}

void SpecialTokens::split_at(TokenId id, std::vector<Fragment>& fragments) const {
  const std::string_view name = *vocabulary_.texts.text(id);
  const GgufToken& token = vocabulary_.tokens[static_cast<std::size_t>(id)];
  std::vector<Fragment> out;
  for (const Fragment& fragment : fragments) {
    if (fragment.id >= 0) {
      out.push_back(fragment);
      continue;
    }
    std::string_view rest = fragment.text;
    for (std::size_t at = rest.find(name); at != std::string_view::npos; at = rest.find(name)) {
      std::string_view left = rest.substr(0, at);
      while (token.lstrip && !left.empty() && is_space(left.back())) left.remove_suffix(1);
      if (!left.empty()) out.push_back({-1, left});
      out.push_back({id, name});
      rest.remove_prefix(at + name.size());
      while (token.rstrip && !rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
    }
    if (!rest.empty()) out.push_back({-1, rest});
  }
  fragments = std::move(out);
}

std::vector<Fragment> SpecialTokens::split(std::string_view text, bool parse_special) const {
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({-1, text});
  for (const TokenId id : occurring(text, parse_special)) split_at(id, fragments);
  return fragments;
}

}  // namespace verbatim::local_engine
