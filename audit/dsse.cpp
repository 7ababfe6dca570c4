#include "audit/dsse.hpp"

#include "audit/strict_json.hpp"
#include "schema/digest.hpp"

#include <algorithm>

namespace verbatim::audit {

namespace {

constexpr std::string_view kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";

Error malformed(const char* what) { return Error{Errc::invalid_input, what, "", ""}; }

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

Result<ByteVector> bytes_at(const Json& object, const char* name) {
  const Json* const text = member(object, name);
  if (text == nullptr || !text->is_string()) return malformed("a DSSE envelope lacks a member");
  return from_dsse_base64(text->get<std::string>());
}

}  // namespace

std::string dsse_pae(std::string_view type, std::string_view payload) {
  std::string text = "DSSEv1 " + std::to_string(type.size()) + " ";
  text.append(type).append(" ").append(std::to_string(payload.size())).append(" ");
  return text.append(payload);
}

Result<ByteVector> from_dsse_base64(std::string text) {
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  return from_base64(text);
}

Json manifest_statement(std::string_view manifest, const Json& members) {
  Json predicate = Json::object();
  for (const char* name : {"origin", "size", "root"}) predicate[name] = members.value(name, Json());
  return {{"_type", "https://in-toto.io/Statement/v1"},
          {"subject", Json::array({{{"name", "manifest.json"},
                                    {"digest", {{"sha256", sha256(manifest).hex()}}}}})},
          {"predicateType", "urn:verbatim:evidence:1"},
          {"predicate", std::move(predicate)}};
}

Result<std::string> sign_statement(std::string_view statement, LogKey& key) {
  const auto signature = key.sign(as_bytes(dsse_pae(kInTotoType, statement)));
  if (!signature) return signature.error();
  const std::string hint = key.verifier().str();
  return canonical(
      {{"mediaType", kBundleType},
       {"verificationMaterial", {{"publicKey", {{"hint", hint}}}, {"tlogEntries", Json::array()}}},
       {"dsseEnvelope",
        {{"payload", to_base64(as_bytes(statement))},
         {"payloadType", kInTotoType},
         {"signatures",
          Json::array({{{"keyid", hint}, {"sig", to_base64(Bytes(*signature))}}})}}}});
}

Result<std::string> open_statement(std::string_view bundle, const VerifierKey& key) {
  const auto json = parse_strict_json(bundle);
  if (!json) return json.error();
  const Json* const envelope = member(*json, "dsseEnvelope");
  if (envelope == nullptr) return malformed("not a Sigstore bundle with a DSSE envelope");
  const Json* const type = member(*envelope, "payloadType");
  if (type == nullptr || *type != kInTotoType)
    return malformed("the payload is no in-toto statement");
  const Json* const material = member(*json, "verificationMaterial");
  const Json* const named = material != nullptr ? member(*material, "publicKey") : nullptr;
  const Json* const hint = named != nullptr ? member(*named, "hint") : nullptr;
  if (hint == nullptr || *hint != key.str()) {
    return Error{Errc::tampered, "the hint is at another key", "", ""};
  }
  const auto payload = bytes_at(*envelope, "payload");
  if (!payload) return payload.error();
  const Json* const signatures = member(*envelope, "signatures");
  if (signatures == nullptr || !signatures->is_array() || signatures->size() != 1) {
    return malformed("a bundle has exactly one signature");
  }
  const auto signature = bytes_at(signatures->front(), "sig");
  if (!signature) return signature.error();
  if (!ed25519_verify(key.key, as_bytes(dsse_pae(kInTotoType, as_text(*payload))), *signature)) {
    return Error{Errc::tampered, "the statement is not signed by the log's key", key.name, ""};
  }
  return std::string(as_text(*payload));
}

}  // namespace verbatim::audit
