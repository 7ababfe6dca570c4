// Where a log's keys are: PKCS#11 URIs, and the file that names them.

#include "audit/key_file.hpp"
#include "audit/pkcs11_uri.hpp"
#include "tests/fuzz/log_fixture.hpp"

namespace verbatim::fuzz {

namespace {

using namespace audit;

constexpr const char* kUri =
    "pkcs11:token=audit;object=log%2D2027;id=%00%ff;slot-id=5;type=private"
    "?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/verbatim/pin";

void check_uri(std::string_view text) {
  const auto uri = parse_pkcs11_uri(text);
  if (!uri) {
    VERBATIM_CHECK(uri.error().code == Errc::invalid_input);
    return;
  }
  VERBATIM_CHECK(text.size() <= kPkcs11UriBytesMax && is_pkcs11_uri(text));
  VERBATIM_CHECK(uri->module_path.starts_with('/'));
  VERBATIM_CHECK(uri->module_path.find('\0') == std::string::npos);
  VERBATIM_CHECK(uri->pin_file.empty() || uri->pin_file.starts_with('/'));
  VERBATIM_CHECK(uri->pin_file.empty() || uri->pin_variable.empty());
  VERBATIM_CHECK(!uri->shown().empty());
}

void run(std::string_view input) {
  check_uri(input);
  const auto lines = read_key_file(scratch_file("log.key", input));
  if (!lines) return;
  VERBATIM_CHECK(!lines->empty());
  for (const KeyLine& line : *lines) {
    VERBATIM_CHECK(line.text.find('\n') == std::string::npos);
    if (!line.uri.empty()) {
      VERBATIM_CHECK(parse_pkcs11_uri(line.uri).has_value());
      continue;
    }
    const auto key = open_key(line);
    VERBATIM_CHECK(key.has_value());
    VERBATIM_CHECK((*key)->verifier() == line.key);
  }
}

std::vector<std::string> seeds() {
  const std::string seed = format_skey(kOrigin, Ed25519Seed{});
  const std::string vkey = signing_key().verifier().str();
  return {kUri, "pkcs11:?module-path=/m.so&pin-source=env:PIN",
          "pkcs11:manufacturer=a;model=b;serial=c?module-path=/m.so&pin-source=/pin", seed + "\n",
          vkey + " " + kUri + "\n" + seed + "\n"};
}

const Registration kKeyFile({"key_file",
                             run,
                             seeds,
                             {"pkcs11:", "module-path=", "pin-source=", "pin-value=1234", "%00",
                              "%2f", "%", ";", "?", "&", "env:", "file:///", "//", "PRIVATE+KEY+",
                              "slot-id=18446744073709551616"}});

}  // namespace

}  // namespace verbatim::fuzz
