#include "local_engine/engine.hpp"

#include <verbatim_source_digest.hpp>

namespace verbatim::local_engine {

std::string build_id() {
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "gcc " __VERSION__;
#endif
  return "verbatim " VERBATIM_VERSION "; " + compiler + "; sources sha256:" VERBATIM_SOURCE_DIGEST;
}

}  // namespace verbatim::local_engine
