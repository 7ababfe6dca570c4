#include "audit/writer.hpp"

#include <array>
#include <utility>

namespace verbatim::audit {

BatchWriter::BatchWriter(std::unique_ptr<Store> store, std::unique_ptr<Signer> signer, Keys& keys,
                         Recovered state)
    : store_(std::move(store)),
      signer_(std::move(signer)),
      keys_(keys),
      tree_(std::move(state.tree)) {
  for (const OpenRequest& request : state.open) open_.emplace(request.index, request.id);
}

std::vector<Result<Appended>> BatchWriter::write(std::span<QueuedDraft> batch,
                                                 std::int64_t now_us) {
  std::vector<Result<Appended>> results;
  std::vector<PreparedLeaf> leaves;
  results.reserve(batch.size());
  leaves.reserve(batch.size());

  // 1. What can be refused is refused before anything is written.
  closed_.clear();
  std::uint64_t index = tree_.size();
  for (QueuedDraft& item : batch) {
    item.prepare(packer_);
    Result<PreparedLeaf>& leaf = *item.prepared;
    Result<void> fits = leaf ? open_or_close(index, *leaf) : Result<void>(leaf.error());
    if (!fits) {
      results.emplace_back(fits.error());
      continue;
    }
    results.emplace_back(Appended{index++, 0, {}, item.id, item.time_us});
    leaves.push_back(std::move(*leaf));
  }
  if (leaves.empty()) return results;

  // 2. All that is left becomes durable, or nothing does.
  const std::uint64_t first = tree_.size();
  const auto committed = commit(leaves, now_us);
  for (Result<Appended>& result : results) {
    if (!result) continue;
    if (!committed) {
      result = committed.error();
      continue;
    }
    result->tree_size = tree_.size();
    result->leaf_hash = leaves[result->index - first].hash;
  }
  return results;
}

Result<Appended> BatchWriter::write(LeafDraft draft, const Uuid& id, std::int64_t now_us) {
  std::array<QueuedDraft, 1> batch;
  batch[0].draft = std::move(draft);
  batch[0].id = id;
  batch[0].time_us = now_us;
  return write(batch, now_us).front();
}

Result<void> BatchWriter::commit(std::span<const PreparedLeaf> leaves, std::int64_t now_us) {
  auto transaction = store_->begin();
  if (!transaction) {
    undo_open();
    return transaction.error();
  }
  CompactRange tree = tree_;
  Result<void> done = insert_all(leaves, tree, now_us);
  std::string note;
  const Checkpoint head{signer_->key().name, tree.size(), tree.root()};
  if (done) {
    auto signed_note = signer_->sign(head);
    // A key that does not sign now (its token is away) may sign later: nothing has been written, and nothing is lost.
    stopped_ = !signed_note && signed_note.error().code == Errc::tampered;
    if (signed_note) {
      note = std::move(*signed_note);
      const std::uint64_t open_from = open_.empty() ? head.size : open_.begin()->first;
      done = store_->insert_checkpoint({head.size, head.root, open_from, note});
    } else {
      done = signed_note.error();
    }
  }
  if (done) {
    done = store_->check_in_place();
    if (!done) stopped_ = true;
  }
  // A crash from here on: the batch is there after recovery, or not; nobody was told either way.
  if (done) done = transaction->commit();
  if (!done) {
    undo_open();
    if (done.error().code == Errc::in_doubt) stopped_ = true;
    return done;
  }
  tree_ = std::move(tree);
  // The batch is durable. A mark that cannot be written leaves rollback undetected: do not go on.
  if (!signer_->committed(head, note)) stopped_ = true;
  return {};
}

Result<void> BatchWriter::insert_all(std::span<const PreparedLeaf> leaves, CompactRange& tree,
                                     std::int64_t now_us) {
  for (const PreparedLeaf& leaf : leaves) {
    if (auto inserted = insert(tree, leaf, now_us); !inserted) return inserted;
  }
  return {};
}

Result<void> BatchWriter::open_or_close(std::uint64_t index, const PreparedLeaf& leaf) {
  if (leaf.type == "request") open_.emplace(index, leaf.id);
  if (leaf.type != "response") return {};
  const auto request = leaf.closes ? open_.find(*leaf.closes) : open_.end();
  if (request == open_.end() || request->second != leaf.id) {
    return Error{Errc::invalid_input, "a response must name an open request of its record",
                 leaf.id.str(), ""};
  }
  closed_.push_back({request->first, request->second});
  open_.erase(request);
  return {};
}

// Puts back what the batch closed, and takes out what it opened.
void BatchWriter::undo_open() {
  for (const OpenRequest& request : closed_) open_.emplace(request.index, request.id);
  open_.erase(open_.lower_bound(tree_.size()), open_.end());
}

Result<void> BatchWriter::insert(CompactRange& tree, const PreparedLeaf& leaf,
                                 std::int64_t now_us) {
  const std::uint64_t index = tree.size();
  std::string hashes;
  tree.append(leaf.hash, [&](const Digest& hash) { hashes += as_text(hash.view()); });
  if (auto inserted = store_->insert_leaf(index, leaf, hashes); !inserted) return inserted;
  if (auto contents = insert_contents(index, leaf); !contents) return contents;
  for (const std::uint64_t content : leaf.erases) {
    if (auto erased = store_->erase_content(content); !erased) return erased;
  }
  if (!leaf.canonical) return {};
  return store_->put_canonical(*leaf.canonical, index, now_us);
}

Result<void> BatchWriter::insert_contents(std::uint64_t index, const PreparedLeaf& leaf) {
  if (leaf.contents.empty()) return {};
  // The subject's key is durable in keys.db before the log refers to it.
  const auto kek = keys_.subject_key(leaf.subject);
  if (!kek) return kek.error();
  const SymmetricKey key = random_key();
  const std::string dek = wrap_key(aead_, kek->key, key, dek_purpose(index));
  std::uint64_t id = index * kContentsMax;
  for (const PackedContent& content : leaf.contents) {
    const std::string sealed = seal_content(aead_, key, index, content);
    auto inserted = store_->insert_content(id++, kek->id, content.codec, dek, sealed);
    if (!inserted) return inserted;
  }
  return {};
}

}  // namespace verbatim::audit
