#include "gateway/body_redaction.hpp"

#include <algorithm>
#include <cstring>

namespace verbatim::gateway {

namespace {

/// Where `wanted` occurs next; text.size() if it does not. In linear time whatever the two are: both may be chosen by
/// others.
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from) {
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? text.size()
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace

TextSearch::TextSearch(const RedactionRules& rules, const std::vector<TakenText>& taken)
    : taken_(taken) {
  for (const auto& rule : rules) {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (!rule->patterns[i] || kinds_[i]) continue;
      kinds_.set(i);
      rule_of_.emplace(static_cast<SecretKind>(i), &rule->name);
    }
  }
}

std::vector<TextSearch::Hit> TextSearch::find(std::string_view text) const {
  std::vector<Hit> out;
  // Merged kind by kind and text by text: what is held at once does not grow with how many overlap.
  const auto take = [&](const std::vector<Hit>& more) {
    std::vector<Hit> both(out.size() + more.size());
    std::merge(out.begin(), out.end(), more.begin(), more.end(), both.begin(),
               [](const Hit& a, const Hit& b) { return a.begin < b.begin; });
    out.clear();
    for (const Hit& hit : both) {
      if (!out.empty() && hit.begin < out.back().end) {
        out.back().end = std::max(out.back().end, hit.end);
      } else {
        out.push_back(hit);
      }
    }
  };
  std::vector<Hit> all;
  if (kinds_.any()) {
    for (const SecretSpan& span : find_secrets(text, kinds_)) {
      all.push_back({span.begin, span.end, rule_of_.at(span.kind)});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Hit& a, const Hit& b) { return a.begin < b.begin; });
    take(all);
  }
  for (const TakenText& each : taken_) {
    all.clear();
    for (std::size_t at = find_text(text, each.text, 0); at < text.size();
         at = find_text(text, each.text, at + each.text.size())) {
      all.push_back({at, at + each.text.size(), &each.rule});
    }
    if (!all.empty()) take(all);
  }
  return out;
}

std::string TextSearch::redact(std::string_view text, RedactionCounts& counts) const {
  std::string out;
  std::size_t done = 0;
  for (const Hit& hit : find(text)) {
    out.append(text.substr(done, hit.begin - done)).append(kTakenOut);
    done = hit.end;
    ++counts[*hit.rule];
  }
  return out.append(text.substr(done));
}

}  // namespace verbatim::gateway
