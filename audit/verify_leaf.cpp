#include "audit/verify_leaf.hpp"

#include <algorithm>
#include <iterator>

namespace verbatim::audit {

namespace {

/// Canonical form, without throwing on what no leaf may hold.
bool is_canonical(const Json& json, std::string_view bytes) {
  try {
    return canonical(json) == bytes;
  } catch (const std::logic_error&) {
    return false;
  }
}

}  // namespace

std::optional<ReadLeaf> read_leaf(std::uint64_t index, std::string_view bytes, Findings& findings) {
  const std::string name = "leaf " + std::to_string(index);
  auto json = parse_json(bytes);
  if (!json || !is_canonical(*json, bytes)) {
    findings.tampered("leaf_format", name + " is not canonical JSON", index);
    return std::nullopt;
  }
  auto head = read_leaf_head(*json);
  if (!head) {
    findings.tampered("leaf_format", name + ": " + head.error().what, index);
    return std::nullopt;
  }
  return ReadLeaf{std::move(*json), std::move(*head)};
}

std::optional<ReadLeaf> LeafCheck::add(std::uint64_t index, std::string_view bytes,
                                       Findings& findings) {
  auto leaf = read_leaf(index, bytes, findings);
  if (!leaf) {
    incomplete_ = true;
    return std::nullopt;
  }
  const LeafHead& head = leaf->head;
  if (head.type == "request") open_.emplace(index, head.id);
  if (head.type == "response") {
    const auto request = leaf->json.find("request");
    const bool named = request != leaf->json.end() && request->is_number_unsigned();
    const auto open = named ? open_.find(request->get<std::uint64_t>()) : open_.end();
    leaf->answers_pruned = named && was_pruned(request->get<std::uint64_t>()) &&
                           answered_.insert(request->get<std::uint64_t>()).second;
    if (leaf->answers_pruned) return leaf;
    if (open == open_.end() || open->second != head.id) {
      findings.tampered(
          "exchange",
          "leaf " + std::to_string(index) + " does not answer an open request of its record",
          index);
      incomplete_ = true;
    } else {
      open_.erase(open);
    }
  }
  return leaf;
}

void LeafCheck::pruned(std::uint64_t index) {
  if (pruned_.empty() || pruned_.back().second != index) pruned_.emplace_back(index, index);
  pruned_.back().second = index + 1;
  pruned_below_ = index + 1;
}

bool LeafCheck::was_pruned(std::uint64_t index) const {
  const auto after =
      std::upper_bound(pruned_.begin(), pruned_.end(), index,
                       [](std::uint64_t at, const auto& range) { return at < range.first; });
  return after != pruned_.begin() && index < std::prev(after)->second;
}

void check_shared_id(std::uint64_t first, std::uint64_t index, const ReadLeaf& leaf,
                     Findings& findings) {
  // Its request has it too: LeafCheck sees to that, where the request is still there.
  if (leaf.head.type == "response" && (!leaf.answers_pruned || leaf.json.at("request") == first)) {
    return;
  }
  findings.tampered(
      "record_id",
      "leaf " + std::to_string(index) + " has the record id of leaf " + std::to_string(first),
      index);
}

}  // namespace verbatim::audit
