#include "model_signing/bundle.hpp"

#include "audit/dsse.hpp"
#include "audit/json_member.hpp"

#include <utility>

namespace verbatim::model_signing {

namespace {

using audit::member;

constexpr const char* kMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";

Problem wrong_bundle(std::string detail) { return {"bundle", std::move(detail)}; }
Problem wrong_envelope(std::string detail) { return {"envelope", std::move(detail)}; }

bool is_text_at(const Json& object, const char* name) {
  const Json* const found = member(object, name);
  return found != nullptr && found->is_string() && !found->get_ref<const std::string&>().empty();
}

bool has_entries(const Json& object, const char* name) {
  const Json* const found = member(object, name);
  return found != nullptr && found->is_array() && !found->empty();
}

Checked<void> read_key(const Json& key, Bundle& bundle) {
  if (!is_text_at(key, "hint") && !is_text_at(key, "rawBytes"))
    return wrong_bundle("publicKey has no hint");
  bundle.method = Bundle::Method::key;
  bundle.hint = audit::text_at(key, "hint");
  return {};
}

/// Who vouches for the signature: exactly one of three, and each with what it needs.
Checked<void> read_material(const Json& material, Bundle& bundle) {
  const Json* const entries = member(material, "tlogEntries");
  if (entries != nullptr && !entries->is_array()) return wrong_bundle("tlogEntries is no list");
  const Json* const key = member(material, "publicKey");
  const Json* const chain = member(material, "x509CertificateChain");
  const Json* const certificate = member(material, "certificate");
  if ((key != nullptr) + (chain != nullptr) + (certificate != nullptr) != 1) {
    return wrong_bundle(
        "verificationMaterial has not exactly one of publicKey, x509CertificateChain, certificate");
  }
  if (key != nullptr) return read_key(*key, bundle);
  if (chain != nullptr) {
    if (!has_entries(*chain, "certificates")) return wrong_bundle("a chain without certificates");
    bundle.method = Bundle::Method::certificate;
    return {};
  }
  if (!is_text_at(*certificate, "rawBytes")) return wrong_bundle("certificate has no rawBytes");
  if (!has_entries(material, "tlogEntries"))
    return wrong_bundle("a certificate of Sigstore without an entry in its transparency log");
  bundle.method = Bundle::Method::sigstore;
  return {};
}

Checked<void> read_envelope(const Json& envelope, Bundle& bundle) {
  const auto known =
      check_members(envelope, "dsseEnvelope", {"payload", "payloadType", "signatures"}, "envelope");
  if (!known) return known.error();
  if (audit::text_at(envelope, "payloadType") != audit::kInTotoType)
    return wrong_envelope("payloadType is not " + std::string(audit::kInTotoType));
  if (!is_text_at(envelope, "payload")) return wrong_envelope("no payload");
  const auto payload = audit::from_dsse_base64(audit::text_at(envelope, "payload"));
  if (!payload) return wrong_envelope("the payload is no base64");
  bundle.payload = as_text(*payload);
  const Json* const signatures = member(envelope, "signatures");
  if (signatures == nullptr || !signatures->is_array() || signatures->size() != 1)
    return wrong_envelope("not exactly one signature");
  const Json& signature = signatures->front();
  const auto members = check_members(signature, "the signature", {"sig", "keyid"}, "envelope");
  if (!members) return members.error();
  // It is not signed and says nothing; but it must be what the format says.
  const Json* const id = member(signature, "keyid");
  if (id != nullptr && !id->is_null() && !id->is_string())
    return wrong_envelope("keyid is no text");
  if (!is_text_at(signature, "sig")) return wrong_envelope("no sig");
  auto sig = audit::from_dsse_base64(audit::text_at(signature, "sig"));
  if (!sig) return wrong_envelope("the signature is no base64");
  bundle.signature = std::move(*sig);
  return {};
}

}  // namespace

std::string sign_statement(std::string_view statement, const EcPrivateKey& key) {
  const ByteVector signature = key.sign(as_bytes(audit::dsse_pae(audit::kInTotoType, statement)));
  return canonical(
             {{"mediaType", kMediaType},
              {"verificationMaterial",
               {{"publicKey", {{"hint", key.public_key().hint()}}},
                {"tlogEntries", Json::array()}}},
              {"dsseEnvelope",
               {{"payload", to_base64(as_bytes(statement))},
                {"payloadType", audit::kInTotoType},
                {"signatures", Json::array({{{"keyid", ""}, {"sig", to_base64(signature)}}})}}}}) +
         "\n";
}

Checked<Bundle> read_bundle(std::string_view text) {
  const auto json = parse_bounded(text, "bundle");
  if (!json) return json.error();
  const auto known = check_members(*json, "the bundle",
                                   {"mediaType", "verificationMaterial", "dsseEnvelope"}, "bundle");
  if (!known) return known.error();
  if (audit::text_at(*json, "mediaType") != kMediaType)
    return wrong_bundle("mediaType is not " + std::string(kMediaType));
  const Json* const material = member(*json, "verificationMaterial");
  if (material == nullptr || !material->is_object()) return wrong_bundle("no verificationMaterial");
  const Json* const envelope = member(*json, "dsseEnvelope");
  if (envelope == nullptr) return wrong_bundle("no dsseEnvelope");
  Bundle bundle;
  if (const auto read = read_material(*material, bundle); !read) return read.error();
  if (const auto read = read_envelope(*envelope, bundle); !read) return read.error();
  return bundle;
}

Checked<std::string> open_bundle(const Bundle& bundle, const EcPublicKey& key) {
  if (bundle.method == Bundle::Method::certificate)
    return Problem{"unsupported", "a signature by a certificate, not by a key"};
  if (bundle.method == Bundle::Method::sigstore)
    return Problem{"unsupported", "a keyless signature of Sigstore, not one by a key"};
  if (!bundle.hint.empty() && bundle.hint != key.hint())
    return Problem{"other_key", "signed by the key " + bundle.hint.substr(0, 64) +
                                    ", but the one given is " + key.hint()};
  const std::string signed_bytes = audit::dsse_pae(audit::kInTotoType, bundle.payload);
  if (!key.verify(as_bytes(signed_bytes), bundle.signature))
    return Problem{"signature", "not the signature of this statement by this key"};
  return Checked<std::string>(boost::system::in_place_value, bundle.payload);
}

}  // namespace verbatim::model_signing
