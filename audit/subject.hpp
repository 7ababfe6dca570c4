#pragma once
// The handle under which the log knows a person or credential: a keyed hash, useless without the log's keys.

#include "audit/keys.hpp"
#include "schema/error.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace verbatim::audit {

/// Hexadecimal: equal for equal input under one log's keys. Errors as Keys::secret() gives them.
[[nodiscard]] Result<std::string> subject_handle(Keys& keys, std::string_view credential);
/// The same by the keys in a data folder, live or not. `not_found`: no keys there.
[[nodiscard]] Result<std::string> subject_handle(const std::filesystem::path& data_dir,
                                                 std::string_view credential);

}  // namespace verbatim::audit
