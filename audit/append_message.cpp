#include "audit/append_socket.hpp"
#include "audit/json_member.hpp"

namespace verbatim::audit {

namespace {

Error malformed(const char* what) { return Error{Errc::invalid_input, what, "append.sock", ""}; }

std::string encode_error(const Error& error) {
  return Json{{"error",
               {{"code", static_cast<int>(error.code)},
                {"what", error.what},
                {"where", error.where},
                {"advice", error.advice}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The error that an answer is, if it is one.
std::optional<Error> decode_error(const Json& answer) {
  const auto error = answer.is_object() ? answer.find("error") : answer.end();
  if (!answer.is_object() || error == answer.end() || !error->is_object()) return std::nullopt;
  const std::int64_t code = number_at(*error, "code");
  const bool known = code >= 1 && code <= static_cast<int>(Errc::erased);
  return Error{known ? static_cast<Errc>(code) : Errc::storage_failed, text_at(*error, "what"),
               text_at(*error, "where"), text_at(*error, "advice")};
}

/// What a message asks for under this name. `not_found`: something else.
Result<Json> request_named(const char* name, std::string_view message) {
  const auto json = parse_json(message);
  if (!json) return json.error();
  const Json* const request = member(*json, name);
  if (request == nullptr) {
    return Error{Errc::not_found, "the message asks for something else", "append.sock", ""};
  }
  return Result<Json>(boost::system::in_place_value, *request);
}

/// The answer under this name, or the error that came instead.
Result<Json> answer_named(const char* name, std::string_view message) {
  const auto json = parse_json(message);
  if (!json) return json.error();
  if (const auto error = decode_error(*json)) return *error;
  const Json* const answer = member(*json, name);
  if (answer == nullptr || !answer->is_object()) return malformed("an answer says nothing");
  return Result<Json>(boost::system::in_place_value, *answer);
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
  for (const char* own : {"request", "response", "erasure"}) {
    if (draft.type == own)
      return malformed("only the process that holds the log appends such leaves");
  }
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
  return encode_error(result.error());
}

std::string encode_erase(const EraseRequest& request) {
  return Json{{"erase",
               {{"scope", scope_json(request.scope)},
                {"reason", request.reason},
                {"actor", request.actor}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<EraseRequest> decode_erase(std::string_view message) {
  const auto from = request_named("erase", message);
  if (!from) return from.error();
  if (!from->is_object() || !from->contains("scope")) return malformed("an erasure has no scope");
  const auto scope = read_scope(from->at("scope"));
  if (!scope) return scope.error();
  return EraseRequest{*scope, text_at(*from, "reason"), text_at(*from, "actor")};
}

std::string encode_erased(const Result<ErasureReport>& result) {
  if (!result) return encode_error(result.error());
  return Json{{"erased",
               {{"contents", result->contents},
                {"leaves", result->leaves},
                {"key_destroyed", result->key_destroyed},
                {"wal_emptied", result->wal_emptied}}}}
      .dump();
}

Result<ErasureReport> decode_erased(std::string_view message) {
  const auto erased = answer_named("erased", message);
  if (!erased) return erased.error();
  ErasureReport report;
  report.contents = static_cast<std::uint64_t>(number_at(*erased, "contents"));
  report.key_destroyed = is_true_at(*erased, "key_destroyed");
  report.wal_emptied = is_true_at(*erased, "wal_emptied");
  if (const auto leaves = erased->find("leaves"); leaves != erased->end() && leaves->is_array()) {
    for (const Json& leaf : *leaves) {
      if (leaf.is_number_unsigned()) report.leaves.push_back(leaf.get<std::uint64_t>());
    }
  }
  return report;
}

Result<Appended> decode_result(std::string_view message) {
  const auto appended = answer_named("appended", message);
  if (!appended) return appended.error();
  const auto hash = parse_digest(text_at(*appended, "leaf_hash"));
  const auto id = parse_uuid(text_at(*appended, "id"));
  if (!hash || !id) return malformed("an answer lacks leaf_hash or id");
  return Appended{static_cast<std::uint64_t>(number_at(*appended, "index")),
                  static_cast<std::uint64_t>(number_at(*appended, "tree_size")), *hash, *id,
                  number_at(*appended, "time_us")};
}

}  // namespace verbatim::audit
