#include "audit/log_key.hpp"

namespace verbatim::audit {

Result<std::string> sign_note(std::string_view text, const LogKeys& keys) {
  VERBATIM_CHECK(!text.empty() && text.back() == '\n');
  std::string note = std::string(text) + "\n";
  for (const auto& key : keys) {
    const auto signature = key->sign(as_bytes(text));
    if (!signature) return signature.error();
    note += signature_line(key->verifier().name, key->verifier().id(), *signature);
  }
  return note;
}

}  // namespace verbatim::audit
