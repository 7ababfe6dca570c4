#pragma once
// A byte trie: which of many strings begin at a place of a text.

#include "local_engine/text/flat_map.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

class Trie {
 public:
  /// The first value given for a text stays. The text must not be empty, the value not negative.
  void add(std::string_view text, std::int32_t value) {
    std::uint32_t node = 0;
    for (const char c : text) {
      const std::uint64_t key = edge(node, c);
      if (const std::uint32_t* next = edges_.find(key)) {
        node = *next;
      } else {
        values_.push_back(-1);
        const auto made = static_cast<std::uint32_t>(values_.size() - 1);
        edges_.set(key, made);
        node = made;
      }
    }
    if (values_[node] < 0) values_[node] = value;
    first_[static_cast<unsigned char>(text[0])] = true;
  }

  [[nodiscard]] bool empty() const { return values_.size() == 1; }
  /// Does any string begin with this byte?
  [[nodiscard]] bool may_start(char c) const { return first_[static_cast<unsigned char>(c)]; }

  /// Calls visit(size, value) for every string that text begins with at `at`, shortest first. Costs as many steps as
  /// the longest string that still agrees.
  template <class Visit>
  void match(std::string_view text, std::size_t at, const Visit& visit) const {
    std::uint32_t node = 0;
    for (std::size_t i = at; i < text.size(); ++i) {
      const std::uint32_t* next = edges_.find(edge(node, text[i]));
      if (next == nullptr) return;
      node = *next;
      if (values_[node] >= 0) visit(i + 1 - at, values_[node]);
    }
  }

 private:
  static std::uint64_t edge(std::uint32_t node, char c) {
    return (std::uint64_t{node} << 8) | static_cast<unsigned char>(c);
  }

  FlatMap<std::uint32_t> edges_;
  std::vector<std::int32_t> values_{-1};  // by node; node 0 is the root
  std::array<bool, 256> first_{};
};

}  // namespace verbatim::local_engine
