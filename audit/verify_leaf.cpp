#include "audit/verify_leaf.hpp"

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

std::optional<LeafCheck::Read> LeafCheck::add(std::uint64_t index, std::string_view bytes,
                                              Findings& findings) {
  const std::string name = "leaf " + std::to_string(index);
  auto json = parse_json(bytes);
  if (!json || !is_canonical(*json, bytes)) {
    findings.tampered("leaf_format", name + " is not canonical JSON", index);
    incomplete_ = true;
    return std::nullopt;
  }
  auto head = read_leaf_head(*json);
  if (!head) {
    findings.tampered("leaf_format", name + ": " + head.error().what, index);
    incomplete_ = true;
    return std::nullopt;
  }
  if (head->type == "erasure") erasure_seen_ = true;
  if (head->type == "request") open_.emplace(index, head->id);
  if (head->type == "response") {
    const auto request = json->find("request");
    const bool named = request != json->end() && request->is_number_unsigned();
    const auto open = named ? open_.find(request->get<std::uint64_t>()) : open_.end();
    if (open == open_.end() || open->second != head->id) {
      findings.tampered("exchange", name + " does not answer an open request of its record", index);
      incomplete_ = true;
    } else {
      open_.erase(open);
    }
  }
  return Read{std::move(*json), std::move(*head)};
}

}  // namespace verbatim::audit
