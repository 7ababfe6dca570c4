#include "audit/verify.hpp"
namespace verbatim::audit {
Result<VerifyReport> verify(const std::filesystem::path&, const VerifyOptions&) {
  return Error{Errc::unsupported, "verify", "", ""};
}
}  // namespace verbatim::audit
