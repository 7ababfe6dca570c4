#include "audit/append_socket.hpp"

namespace verbatim::audit {

namespace {

Error malformed(const char* what) { return Error{Errc::invalid_input, what, "append.sock", ""}; }

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

std::string encode_draft(const LeafDraft& draft) {
  Json json = {{"type", draft.type}, {"fields", draft.fields}};
  if (draft.id) json["id"] = draft.id->str();
  if (!draft.subject.empty()) json["subject"] = draft.subject;
  for (const Content& content : draft.contents) {
    json["contents"].push_back(
        {{"field", content.field}, {"base64", to_base64(as_bytes(content.bytes))}});
  }
  if (draft.canonical) {
    json["canonical"] = {{"key", draft.canonical->key.hex()},
                         {"expires_us", draft.canonical->expires_us}};
  }
  // Text that is no UTF-8 is replaced here and refused there: the log takes none.
  return Json{{"draft", std::move(json)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<LeafDraft> decode_draft(std::string_view message) {
  const auto json = parse_json(message);
  if (!json) return json.error();
  if (!json->is_object() || !json->contains("draft")) return malformed("a message has no draft");
  const Json& from = json->at("draft");
  if (!from.is_object() || !from.contains("fields")) return malformed("a draft has no fields");
  LeafDraft draft;
  draft.type = text_at(from, "type");
  draft.fields = from.at("fields");
  draft.subject = text_at(from, "subject");
  // Two leaves of one id would be a fault for ever: only the process that holds the log gives ids.
  if (from.contains("id")) return malformed("a draft that comes this way cannot choose its id");
  if (const auto contents = from.find("contents"); contents != from.end()) {
    if (!contents->is_array()) return malformed("a draft's contents are no array");
    for (const Json& item : *contents) {
      if (!item.is_object()) return malformed("a draft's content is no object");
      const auto bytes = from_base64(text_at(item, "base64"));
      if (!bytes) return bytes.error();
      draft.contents.push_back({text_at(item, "field"), std::string(as_text(*bytes))});
    }
  }
  if (const auto canonical = from.find("canonical"); canonical != from.end()) {
    if (!canonical->is_object()) return malformed("a draft's canonical is no object");
    const auto key = parse_digest(text_at(*canonical, "key"));
    if (!key) return key.error();
    draft.canonical = CanonicalOutput{*key, number_at(*canonical, "expires_us")};
  }
  return draft;
}

std::string encode_result(const Result<Appended>& result) {
  if (result) {
    return Json{{"appended",
                 {{"index", result->index},
                  {"tree_size", result->tree_size},
                  {"leaf_hash", result->leaf_hash.hex()},
                  {"id", result->id.str()},
                  {"time_us", result->time_us}}}}
        .dump();
  }
  const Error error = result.error();
  return Json{{"error",
               {{"code", static_cast<int>(error.code)},
                {"what", error.what},
                {"where", error.where},
                {"advice", error.advice}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Appended> decode_result(std::string_view message) {
  const auto json = parse_json(message);
  if (!json) return json.error();
  if (!json->is_object()) return malformed("an answer is no object");
  if (const auto error = json->find("error"); error != json->end() && error->is_object()) {
    const std::int64_t code = number_at(*error, "code");
    const bool known = code >= 1 && code <= static_cast<int>(Errc::erased);
    return Error{known ? static_cast<Errc>(code) : Errc::storage_failed, text_at(*error, "what"),
                 text_at(*error, "where"), text_at(*error, "advice")};
  }
  const auto appended = json->find("appended");
  if (appended == json->end() || !appended->is_object()) return malformed("an answer says nothing");
  const auto hash = parse_digest(text_at(*appended, "leaf_hash"));
  const auto id = parse_uuid(text_at(*appended, "id"));
  if (!hash || !id) return malformed("an answer lacks leaf_hash or id");
  return Appended{static_cast<std::uint64_t>(number_at(*appended, "index")),
                  static_cast<std::uint64_t>(number_at(*appended, "tree_size")), *hash, *id,
                  number_at(*appended, "time_us")};
}

}  // namespace verbatim::audit
