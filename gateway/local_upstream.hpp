#pragma once
// The local engine as an upstream: OpenAI's chat, completions and models, and Anthropic's messages.

#include "gateway/net.hpp"
#include "gateway/server.hpp"
#include "gateway/upstream.hpp"

#include <memory>
#include <vector>

namespace verbatim::gateway {

/// `clock` must outlive it. `models` must not be empty.
[[nodiscard]] std::unique_ptr<Upstream> make_local_upstream(std::shared_ptr<Mailbox> mailbox,
                                                            const Clock& clock,
                                                            std::vector<LocalModel> models);

}  // namespace verbatim::gateway
