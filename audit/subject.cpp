#include "audit/subject.hpp"

#include "schema/digest.hpp"

namespace verbatim::audit {

Result<std::string> subject_handle(Keys& keys, std::string_view credential) {
  const auto secret = keys.secret("subject");
  if (!secret) return secret.error();
  return hmac_sha256(*secret, {as_bytes("verbatim/subject/v1"), as_bytes(credential)}).hex();
}

Result<std::string> subject_handle(const std::filesystem::path& data_dir,
                                   std::string_view credential) {
  const auto keys = Keys::open(data_dir, Keys::Mode::read);
  if (!keys) return keys.error();
  return subject_handle(**keys, credential);
}

}  // namespace verbatim::audit
