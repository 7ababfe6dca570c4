#pragma once
// Token texts and ids, both ways.

#include "local_engine/token.hpp"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace verbatim::local_engine {

/// Texts may hold any bytes. Not every id below size() need have a text.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// False if the text has an id already: that id stays. In any case the id gets this text, unless it has one.
  bool add(std::string_view text, TokenId id) {
    auto found = ids_.find(text);
    const bool is_new = found == ids_.end();
    if (is_new) found = ids_.emplace(storage_.emplace_back(text), id).first;
    const auto at = static_cast<std::size_t>(id);
    if (at >= texts_.size()) texts_.resize(at + 1);
    if (texts_[at].data() == nullptr) texts_[at] = found->first;
    return is_new;
  }

  void reserve(std::size_t count) {
    ids_.reserve(count);
    texts_.reserve(count);
  }

  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  [[nodiscard]] std::optional<std::string_view> text(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    if (id < 0 || at >= texts_.size() || texts_[at].data() == nullptr) return std::nullopt;
    return texts_[at];
  }

  /// One more than the highest id.
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> storage_;  // a deque, so that the views stay valid
  std::unordered_map<std::string_view, TokenId> ids_;
  std::vector<std::string_view> texts_;  // by id; null data: none
};

}  // namespace verbatim::local_engine
