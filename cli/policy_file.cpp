#include "cli/policy_file.hpp"

#include "audit/policy.hpp"
#include "cli/command.hpp"

namespace verbatim::cli {

Result<std::string> read_policy(const std::string& path) {
  if (path.empty()) return std::string();
  auto text = read_input(path);
  if (!text) return text;
  if (const auto policy = audit::Policy::parse(*text); !policy) {
    Error error = policy.error();
    error.where = path + (error.where.empty() ? "" : ": " + error.where);
    return error;
  }
  return text;
}

}  // namespace verbatim::cli
