#include "audit/recovery.hpp"

#include "audit/json_member.hpp"
#include "audit/tiles.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::audit {

namespace {

Error refused(std::string what) {
  return Error{Errc::tampered, std::move(what), "",
               "nothing was changed; `verbatim verify` says more"};
}

/// The newest checkpoint, its signature and columns checked.
Result<StoredCheckpoint> signed_head(Queries& queries, const KeyChain& keys) {
  const auto newest = queries.newest_checkpoint();
  if (!newest) return newest.error();
  if (!*newest) return StoredCheckpoint{0, empty_root(), 0, ""};
  const auto opened = open_checkpoint((*newest)->note, keys);
  if (!opened) {
    return refused("the newest checkpoint is not signed by the log's key: " + opened.error().what);
  }
  if (*opened != Checkpoint{keys.origin(), (*newest)->size, (*newest)->root}) {
    return refused("the newest checkpoint's columns are not what its note says");
  }
  return **newest;
}

/// Hashes the leaves of the last tile again, and every subtree within it.
Result<void> check_last_tile(Queries& queries, std::uint64_t size) {
  const std::uint64_t from = size == 0 ? 0 : (size - 1) / kTileWidth * kTileWidth;
  CompactRange tile;
  std::string problem;
  auto read = queries.leaves(from, size, [&](const LeafRow& row) {
    std::size_t at = 0;
    tile.append(leaf_hash(row.bytes), [&](const Digest& hash) {
      const bool there = at + 32 <= row.hashes.size();
      if (!there || as_text(row.hashes.subspan(at, 32)) != as_text(hash.view())) {
        problem = "leaf " + std::to_string(row.index) + " does not hash to its tree node";
      }
      at += 32;
    });
    return problem.empty();
  });
  if (!read) return read.error();
  if (!problem.empty()) return refused(problem);
  return {};
}

Result<void> check_mark(Queries& queries, const StoredCheckpoint& head, const Checkpoint& mark) {
  if (mark.size > head.size) {
    return refused("the log has " + std::to_string(head.size) +
                   " leaves, but its high-water mark is at " + std::to_string(mark.size) +
                   ": it was rolled back or cut");
  }
  const auto root = tree_root(queries.nodes(), mark.size);
  if (!root) return root.error();
  if (*root != mark.root) {
    return refused("the log's first " + std::to_string(mark.size) +
                   " leaves are not those that its high-water mark was signed for");
  }
  return {};
}

Result<void> check_first_leaf(Queries& queries, const std::string& keys_id) {
  const auto bytes = queries.leaf(0);
  if (!bytes) return bytes.error();
  const auto json = parse_json(*bytes);
  if (!json || text_at(*json, "keys_id") != keys_id) {
    return refused("keys.db belongs to another log");
  }
  return {};
}

/// Every row is of a leaf. One that is not was never written by a log.
Result<void> check_stray_rows(Queries& queries, std::uint64_t size) {
  const auto below = queries.rows_below();
  if (!below) return below.error();
  const auto beyond = queries.rows_beyond(size);
  if (!beyond) return beyond.error();
  if (below->empty() && beyond->empty()) return {};
  const StrayRow& row = below->empty() ? beyond->front() : below->front();
  return refused("the row " + std::to_string(row.key) + " of the table " + row.table +
                 " is of no leaf of the log");
}

/// Requests from `from` on that no response closes.
Result<std::vector<OpenRequest>> open_requests(Queries& queries, std::uint64_t from,
                                               std::uint64_t size) {
  std::vector<OpenRequest> found;
  auto read = queries.leaves(from, size, [&](const LeafRow& row) {
    if (row.type != "request") return true;
    OpenRequest request{row.index, {}};
    if (row.id.size() == request.id.bytes.size()) {
      std::copy(row.id.begin(), row.id.end(), request.id.bytes.begin());
    }
    const auto response = queries.response_of(row.id);
    if (response && !*response) found.push_back(request);
    return true;
  });
  if (!read) return read.error();
  return found;
}

}  // namespace

Result<Recovered> recover(Queries& queries, const KeyChain& keys, const Checkpoint& mark,
                          const std::string& keys_id) {
  const auto head = signed_head(queries, keys);
  if (!head) return head.error();
  const auto leaves = queries.leaf_count();
  if (!leaves) return leaves.error();
  if (*leaves != head->size) {
    return refused("the newest checkpoint covers " + std::to_string(head->size) +
                   " leaves, but there are " + std::to_string(*leaves));
  }
  if (auto stray = check_stray_rows(queries, head->size); !stray) return stray.error();
  auto tree = load_edge(queries.nodes(), head->size);
  if (!tree) return tree.error();
  if (tree->root() != head->root) return refused("the tree's right edge does not lead to its root");
  if (auto tile = check_last_tile(queries, head->size); !tile) return tile.error();
  if (auto marked = check_mark(queries, *head, mark); !marked) return marked.error();
  if (head->size > 0) {
    if (auto first = check_first_leaf(queries, keys_id); !first) return first.error();
  }
  auto open = open_requests(queries, head->open_from, head->size);
  if (!open) return open.error();
  return Recovered{std::move(*tree), std::move(*open)};
}

}  // namespace verbatim::audit
