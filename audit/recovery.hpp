#pragma once
// What a log must show before anything may be appended to it.

#include "audit/key_chain.hpp"
#include "audit/merkle.hpp"
#include "audit/queries.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::audit {

/// A request leaf without its response.
struct OpenRequest {
  std::uint64_t index = 0;
  Uuid id;
};

/// The state in which writing goes on.
struct Recovered {
  CompactRange tree;
  std::vector<OpenRequest> open;  ///< requests to be closed as `interrupted`
};

/// Checks, in time that does not grow with the log: that the newest checkpoint is signed by the newest of `keys` and covers
/// exactly the leaves there are; that no row is of no leaf; that the tree's right edge leads to its root; that the newest
/// leaves (those of the last tile) hash to their nodes; that the tree goes on from `mark`, the last checkpoint the signer
/// remembers; and that leaf 0 names `keys_id`. `tampered` otherwise, saying which.
[[nodiscard]] Result<Recovered> recover(Queries& queries, const KeyChain& keys,
                                        const Checkpoint& mark, const std::string& keys_id);

}  // namespace verbatim::audit
