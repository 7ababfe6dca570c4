// Model signatures from whoever sends one: the bundle, the statement in it, and public keys.

#include "model_signing/bundle.hpp"
#include "model_signing/statement.hpp"
#include "tests/fuzz/target.hpp"

#include <algorithm>
#include <set>

namespace verbatim::fuzz {

namespace {

using namespace model_signing;

constexpr const char* kPublicKey =
    "-----BEGIN PUBLIC KEY-----\n"
    "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEsu6rZGBTjxtvRWPMixT+3HyndV0J0Ybt\n"
    "aHZUcO4DEK+OJHO/4e32bb/fbJKSpRgcBsIpKLcVijUomyFOERbd7u+BTPSUjGZD\n"
    "Qq6J7lTvp/EAXQGOKxW9RP0MGX3qAkvi\n"
    "-----END PUBLIC KEY-----\n";

void check_statement(std::string_view text) {
  const auto statement = read_statement(text);
  if (!statement) {
    static const std::set<std::string> kKinds{"statement", "predicate_type", "root", "unsupported"};
    VERBATIM_CHECK(kKinds.contains(statement.error().kind));
    return;
  }
  VERBATIM_CHECK(!statement->model.empty() && !statement->resources.empty());
  VERBATIM_CHECK((statement->method == Method::shards) == (statement->shard_size > 0));
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (const Resource& resource : statement->resources) {
    VERBATIM_CHECK(is_plain_name(resource.file) || resource.file == kTheOnlyFile);
    VERBATIM_CHECK(seen.emplace(resource.file, resource.start).second);
    VERBATIM_CHECK(resource.start <= resource.end);
    VERBATIM_CHECK(resource.end - resource.start <= statement->shard_size);
  }
  for (const std::string& path : statement->ignore_paths) VERBATIM_CHECK(is_plain_name(path));
  if (statement->method == Method::files) {
    const auto again = read_statement(write_statement(*statement));
    VERBATIM_CHECK(again && again->resources.size() == statement->resources.size());
  }
}

void check_bundle(std::string_view text) {
  const auto bundle = read_bundle(text);
  if (!bundle) {
    VERBATIM_CHECK(bundle.error().kind == "bundle" || bundle.error().kind == "envelope");
    return;
  }
  // Nothing here is signed by this key.
  static const auto kKey = EcPublicKey::parse(kPublicKey).value();
  VERBATIM_CHECK(!open_bundle(*bundle, kKey));
  check_statement(bundle->payload);
}

void run(std::string_view input) {
  check_bundle(input);
  check_statement(input);
  if (const auto key = EcPublicKey::parse(input); key) VERBATIM_CHECK(key->hint().size() == 64);
}

Json bundle_of(const std::string& statement, const Json& material) {
  return {{"mediaType", "application/vnd.dev.sigstore.bundle.v0.3+json"},
          {"verificationMaterial", material},
          {"dsseEnvelope",
           {{"payload", to_base64(as_bytes(statement))},
            {"payloadType", "application/vnd.in-toto+json"},
            {"signatures", Json::array({{{"keyid", ""}, {"sig", "AAAA"}}})}}}};
}

std::vector<std::string> seeds() {
  Statement files;
  files.model = "demo";
  files.ignore_paths = {".git", "model.sig"};
  files.resources = {{"a/b", sha256("1").hex(), 0, 0}, {"c", sha256("2").hex(), 0, 0}};
  const std::string statement = write_statement(files);
  Json shards = Json::parse(statement);
  shards["predicate"]["serialization"]["method"] = "shards";
  shards["predicate"]["serialization"]["shard_size"] = 8;
  shards["predicate"]["resources"][0]["name"] = "c:0:8";
  shards["predicate"]["resources"][1]["name"] = "c:8:9";
  return {statement, shards.dump(), bundle_of(statement, {{"publicKey", {{"hint", "00"}}}}).dump(),
          bundle_of(statement, {{"x509CertificateChain",
                                 {{"certificates", Json::array({{{"rawBytes", "AA=="}}})}}}})
              .dump(),
          kPublicKey};
}

const Registration kModelSignature({"model_signature",
                                    run,
                                    seeds,
                                    {"\"shards\"", "\"shard_size\":", "\"blake2b\"", "\"files\"",
                                     ":0:8", ":8:16", "..", "/", ".", "-sharded-8", "\"hint\":",
                                     "\"rawBytes\":", "\"keyid\":null", "\"tlogEntries\":[]",
                                     "-----BEGIN", "\"ignore_paths\":[", "18446744073709551615"}});

}  // namespace

}  // namespace verbatim::fuzz
