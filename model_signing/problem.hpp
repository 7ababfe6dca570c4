#pragma once
// What is wrong with a signature or with the model under it: a finding, not a failure of the check.

#include "schema/canonical_json.hpp"

#include <boost/system/result.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace verbatim::model_signing {

struct Problem {
  /// bundle, envelope, other_key, signature, statement, predicate_type, root; of the model: changed, size, missing, extra,
  /// refused. `unsupported` is none of them: what is there may be well, but cannot be checked here.
  std::string kind;
  std::string detail;
};

/// For Checked::value() in tests.
[[noreturn]] inline void throw_exception_from_error(const Problem& problem,
                                                    const boost::source_location&) {
  throw std::runtime_error(problem.kind + ": " + problem.detail);
}

/// A `T` that was well formed, or what was wrong with it.
template <class T>
class [[nodiscard]] Checked : public boost::system::result<T, Problem> {
 public:
  using boost::system::result<T, Problem>::result;
};

/// Parses JSON from outside as parse_json() does, but refuses more than two million values first: they cost more memory
/// than their text. The problem is of that kind.
[[nodiscard]] Checked<Json> parse_bounded(std::string_view text, const std::string& kind);

/// The problem of that kind, if `object` is no object, or has a member that is not among `known`.
[[nodiscard]] Checked<void> check_members(const Json& object, const std::string& name,
                                          std::initializer_list<std::string_view> known,
                                          const std::string& kind);

}  // namespace verbatim::model_signing
