#pragma once
// The two things that verify() verifies.

#include "audit/verify.hpp"

namespace verbatim::audit {

/// A data folder, live or not. See verify().
[[nodiscard]] Result<VerifyReport> verify_log(const std::filesystem::path& folder,
                                              const VerifyOptions& options);

/// A bundle's folder (schema/evidence.md). See verify().
[[nodiscard]] Result<VerifyReport> verify_bundle(const std::filesystem::path& folder,
                                                 const VerifyOptions& options);

}  // namespace verbatim::audit
