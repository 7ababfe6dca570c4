#include "audit/verify_erasure.hpp"

#include <algorithm>

namespace verbatim::audit {

void ErasureCheck::named(std::uint64_t index, const Json& erasure, Findings& findings) {
  const std::string name = "leaf " + std::to_string(index);
  const auto erased = read_erased(erasure);
  if (!erased) {
    findings.tampered("erasure", name + ": " + erased.error().what, index);
    return;
  }
  for (const ErasedContents& contents : *erased) {
    for (const std::string& field : contents.fields) {
      if (unnamed_.erase({contents.leaf, field}) == 1) continue;
      if (pruned_.covers(contents.leaf)) continue;
      findings.tampered("erasure",
                        name + " says that " + field + " of leaf " + std::to_string(contents.leaf) +
                            " was erased, but it is there, or was erased before",
                        index);
    }
  }
}

void ErasureCheck::named_meanwhile(const Json& erasure) {
  const auto erased = read_erased(erasure);
  if (!erased) return;
  for (const ErasedContents& contents : *erased) {
    for (const std::string& field : contents.fields) unnamed_.erase({contents.leaf, field});
  }
}

void ErasureCheck::finish(Findings& findings) const {
  const auto covered = [&](const auto& content) { return pruned_.covers(content.first); };
  const auto first = std::find_if_not(unnamed_.begin(), unnamed_.end(), covered);
  if (first == unnamed_.end()) return;
  const auto& [leaf, field] = *first;
  const auto pruned = std::count_if(unnamed_.begin(), unnamed_.end(), covered);
  findings.tampered(
      "erased_without_leaf",
      std::to_string(unnamed_.size() - static_cast<std::size_t>(pruned)) +
          " contents are gone, and no leaf says that they were erased; the first is " + field +
          " of leaf " + std::to_string(leaf),
      leaf);
}

}  // namespace verbatim::audit
