#pragma once
// Whether a zip file has one meaning.
//
// Some readers believe the directory at a zip file's end, others walk its entries from the start; between them a file
// can hold two bundles. Here the entries lie one after another from the first byte, the directory follows them at
// once and lists exactly them, and the end follows the directory: whoever reads it reads the same.

#include "schema/error.hpp"

#include <filesystem>

namespace verbatim::audit {

/// `invalid_input`, saying what is ambiguous: bytes before, between or after what the directory lists, a comment, a
/// name or size that entry and directory disagree on, a name that is not ASCII, another kind of file, extra fields of
/// unknown kinds, several disks, encryption; or no zip file at all.
[[nodiscard]] Result<void> check_zip_layout(const std::filesystem::path& path);

}  // namespace verbatim::audit
