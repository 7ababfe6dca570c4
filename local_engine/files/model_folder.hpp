#pragma once
// Which files a model is made of: those below its folder, or the one file that it is.

#include "schema/error.hpp"

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// What OpenSSF Model Signing v1.0 (section 6.2) leaves out of every model, at the top of its folder.
inline constexpr std::array<std::string_view, 4> kNeverOfAModel{".git", ".gitattributes", ".github",
                                                                ".gitignore"};

struct ModelFile {
  /// Relative to the folder, '/' separated; of a model that is one file its base name.
  std::string name;
  std::filesystem::path path;
  bool link = false;  ///< a symbolic link, which is one to a file of the same model unless refused
  std::optional<Error> refused;  ///< `invalid_input`: why this can be no file of a model
};

/// True for `path` itself and for all below it. Both are names as above.
[[nodiscard]] bool is_at_or_below(std::string_view name, std::string_view path);

/// True for what is at or below one of kNeverOfAModel.
[[nodiscard]] bool is_never_of_a_model(std::string_view name);

/// All but folders below `root`, or `root` itself (if that is a link, what it leads to); sorted by the bytes of the name.
/// What `leave_out` says true to, a file or a whole folder, is not looked at. A link is refused unless it leads to a regular
/// file below `root`: whoever copies the folder must get what was hashed. Refused too: a name with a newline or that is not
/// UTF-8, which could not stand in a line or in JSON, and what is neither file nor link. `not_found`, `storage_failed`.
[[nodiscard]] Result<std::vector<ModelFile>> list_model_files(
    const std::filesystem::path& root, const std::function<bool(std::string_view)>& leave_out);

}  // namespace verbatim::local_engine
