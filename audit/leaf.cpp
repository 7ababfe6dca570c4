#include "audit/leaf.hpp"

#include "audit/merkle.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace verbatim::audit {

namespace {

Error invalid(std::string what, std::string where = "") {
  return Error{Errc::invalid_input, std::move(what), std::move(where), ""};
}

/// A string member, if there is one.
std::optional<std::string> text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::string> text_at(const Json& object, const char* outer, const char* inner) {
  const auto found = object.find(outer);
  if (found == object.end() || !found->is_object()) return std::nullopt;
  return text_at(*found, inner);
}

Result<void> check_draft(const LeafDraft& draft) {
  if (!draft.fields.is_object()) return invalid("a leaf's fields are not an object");
  if (draft.type.empty() || draft.type.size() > 64) {
    return invalid("a leaf's type is empty, or longer than 64 bytes");
  }
  for (const char* name : {"v", "type", "id", "time", "contents", "canonical"}) {
    if (draft.fields.contains(name)) return invalid("the log sets this member itself", name);
  }
  if (draft.contents.size() > kContentsMax) return invalid("a leaf has more than 16 contents");
  for (std::size_t i = 0; i < draft.contents.size(); ++i) {
    const Content& content = draft.contents[i];
    if (!is_field_name(content.field)) return invalid("not a content's name", content.field);
    if (content.bytes.size() > kContentBytesMax) {
      return invalid("a content is larger than 512 MiB", content.field);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (draft.contents[j].field == content.field) {
        return invalid("a content is given twice", content.field);
      }
    }
  }
  return {};
}

Result<ContentReference> read_reference(const Json& item) {
  ContentReference reference;
  if (!item.is_object()) return invalid("an item of contents is not an object");
  const auto field = text_at(item, "field");
  const auto hex = text_at(item, "commitment");
  const auto bytes = item.find("bytes");
  if (!field || !is_field_name(*field) || !hex || bytes == item.end() ||
      !bytes->is_number_unsigned()) {
    return invalid("an item of contents lacks field, commitment or bytes");
  }
  const auto digest = parse_digest(*hex);
  if (!digest || digest->hex() != *hex) return invalid("a commitment is not a SHA-256 value");
  reference.field = *field;
  reference.commitment = *digest;
  reference.bytes = bytes->get<std::uint64_t>();
  return reference;
}

Result<CanonicalOutput> read_canonical(const Json& member) {
  const auto key = text_at(member, "key");
  const auto expires = member.is_object() ? member.find("expires_us") : member.end();
  if (!key || expires == member.end() || !expires->is_number_integer()) {
    return invalid("a leaf's canonical lacks key or expires_us");
  }
  const auto digest = parse_digest(*key);
  if (!digest) return digest.error();
  if (digest->hex() != *key) return invalid("a leaf's canonical has a key that is not lower-case");
  return CanonicalOutput{*digest, expires->get<std::int64_t>()};
}

}  // namespace

LeafSummary summary_of(const Json& leaf) {
  LeafSummary summary;
  summary.status = text_at(leaf, "status");
  summary.model = text_at(leaf, "model", "requested");
  if (!summary.model && text_at(leaf, "type") == "model") summary.model = text_at(leaf, "name");
  summary.route = text_at(leaf, "route", "api");
  summary.cache = text_at(leaf, "cache");
  summary.tenant = text_at(leaf, "tenant");
  return summary;
}

Result<PreparedLeaf> prepare_leaf(LeafDraft draft, const Uuid& id, std::int64_t time_us,
                                  Packer& packer) {
  if (auto checked = check_draft(draft); !checked) return checked.error();
  PreparedLeaf leaf;
  leaf.id = id;
  leaf.time_us = time_us;
  leaf.subject = std::move(draft.subject);
  leaf.canonical = draft.canonical;
  leaf.erases = std::move(draft.erases);

  Json json = std::move(draft.fields);
  json["v"] = 1;
  json["type"] = draft.type;
  json["id"] = id.str();
  json["time"] = format_rfc3339(time_us);
  if (!draft.contents.empty()) {
    Json& contents = json["contents"] = Json::array();
    for (Content& content : draft.contents) {
      const PackedContent& packed = leaf.contents.emplace_back(packer.pack(std::move(content)));
      contents.push_back({{"field", packed.field},
                          {"commitment", packed.commitment.hex()},
                          {"bytes", packed.bytes}});
    }
  }
  if (draft.canonical) {
    json["canonical"] = {{"key", draft.canonical->key.hex()},
                         {"expires_us", draft.canonical->expires_us}};
  }
  leaf.summary = summary_of(json);
  if (draft.type == "response") {
    const auto request = json.find("request");
    if (request != json.end() && request->is_number_integer()) {
      leaf.closes = request->get<std::uint64_t>();
    }
  }
  leaf.type = std::move(draft.type);
  try {
    leaf.bytes = canonical(json);
  } catch (const std::logic_error& error) {
    return invalid(error.what(), leaf.type);
  }
  if (leaf.bytes.size() > kLeafBytesMax) {
    return invalid("the leaf has " + std::to_string(leaf.bytes.size()) + " bytes, of at most 65535",
                   leaf.type);
  }
  leaf.hash = leaf_hash(as_bytes(leaf.bytes));
  return leaf;
}

Result<LeafHead> read_leaf_head(const Json& leaf) {
  if (!leaf.is_object()) return invalid("a leaf is not an object");
  const auto version = leaf.find("v");
  if (version == leaf.end() || !version->is_number_unsigned()) return invalid("a leaf has no v");
  if (version->get<std::uint64_t>() != 1) {
    return Error{Errc::newer_version, "a leaf was written by a newer verbatim", "", ""};
  }
  const auto type = text_at(leaf, "type");
  const auto id = text_at(leaf, "id");
  const auto time = text_at(leaf, "time");
  if (!type || !id || !time) return invalid("a leaf lacks type, id or time");
  LeafHead head;
  head.type = *type;
  const auto uuid = parse_uuid(*id);
  if (!uuid) return uuid.error();
  head.id = *uuid;
  // There is one way to write either: what is shown is what was signed.
  const bool version_7 = (uuid->bytes[6] & 0xf0) == 0x70 && (uuid->bytes[8] & 0xc0) == 0x80;
  if (!version_7 || uuid->str() != *id) return invalid("a leaf's id is no UUID of version 7");
  const auto time_us = parse_rfc3339(*time);
  if (!time_us) return time_us.error();
  head.time_us = *time_us;
  // Not every program has a year 0.
  if (format_rfc3339(*time_us) != *time || time->starts_with("0000")) {
    return invalid("a leaf's time is not in its one form");
  }
  if (const auto contents = leaf.find("contents"); contents != leaf.end()) {
    if (!contents->is_array() || contents->size() > kContentsMax) {
      return invalid("a leaf's contents are not an array of at most 16");
    }
    for (const Json& item : *contents) {
      auto reference = read_reference(item);
      if (!reference) return reference.error();
      for (const ContentReference& before : head.contents) {
        if (before.field == reference->field) return invalid("a leaf has a content twice");
      }
      head.contents.push_back(std::move(*reference));
    }
  }
  if (const auto canonical = leaf.find("canonical"); canonical != leaf.end()) {
    const auto read = read_canonical(*canonical);
    if (!read) return read.error();
    head.canonical = *read;
  }
  return head;
}

}  // namespace verbatim::audit
