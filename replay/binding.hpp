#pragma once
// Do the recorded tokens belong to the recorded bytes?

#include "replay/recorded.hpp"

#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// Empty `reason`: they belong. `prompt`: the request's body, rendered and tokenised as when it was answered,
/// gives other prompt ids or other sampling, or the recorded time is not the request's. `text`: the answer's body
/// says something else than the tokens; or body, headers or the leaf's own figures are not what the gateway makes of them.
struct Binding {
  std::string reason, detail;
  std::optional<std::size_t> character;  ///< where the texts differ first, in bytes
};

/// `asked` is the record itself, `computed` the one that holds the tokens: the same but for a cache hit.
/// Errors as RecordSource::content() gives them.
[[nodiscard]] Result<Binding> check_binding(audit::RecordSource& reader,
                                            const RecordedLeaves& asked,
                                            const RecordedLeaves& computed,
                                            local_engine::Engine& engine,
                                            const RecordedTokens& tokens);

}  // namespace verbatim::replay
