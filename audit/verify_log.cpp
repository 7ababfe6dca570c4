#include "audit/verify_log.hpp"

#include "audit/cosigned.hpp"
#include "audit/database.hpp"
#include "audit/findings.hpp"
#include "audit/json_member.hpp"
#include "audit/keys.hpp"
#include "audit/node_check.hpp"
#include "audit/prune.hpp"
#include "audit/read_connection.hpp"
#include "audit/schema_check.hpp"
#include "audit/signer.hpp"
#include "audit/verify_erasure.hpp"
#include "audit/verify_leaf.hpp"
#include "audit/verify_timestamp.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace verbatim::audit {

namespace {

// Leaves between two snapshots: a long one would keep a live log's WAL from being reused.
constexpr std::uint64_t kChunk = 512;

constexpr const char* kKeyFiles[] = {"keys.db", "master.key", "log.key"};

/// Everything that reading a chunk changes, so that a chunk can be read again.
struct Progress {
  NodeCheck nodes;
  LeafCheck leaves;
  HeadCheck heads;
  ErasureCheck erasures;
  Findings findings;
  std::uint64_t checked_leaves = 0, checked_contents = 0, erased = 0;
  Pruned pruned;           // what the newest `prune` leaf says when the chunk is read
  std::uint64_t gone = 0;  // leaves that it covers, and that are gone
  bool prune_unfinished = false;
  std::uint64_t foreign_checkpoints = 0;  // signed by another key than the log's
  std::uint64_t first_foreign = 0;        // size of the first
};

/// Whether this is the folder of who has the keys, and not a copy for somebody else.
bool holds_keys(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::any_of(std::begin(kKeyFiles), std::end(kKeyFiles), [&](const char* name) {
    return std::filesystem::exists(std::filesystem::symlink_status(folder / name, ignored));
  });
}

class LogVerifier {
 public:
  LogVerifier(std::filesystem::path folder, const VerifyOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  Result<VerifyReport> run();

 private:
  Result<void> check_database();
  Result<void> read_ends();
  Result<void> choose_key();
  void check_keys_database();
  Result<void> check_mark();
  void check_cosigned();
  Result<void> announce_timestamps();
  Result<void> check_chunks();
  Result<void> check_chunk(Queries& queries, Progress& p, std::uint64_t from, std::uint64_t to);
  Result<void> check_gap(Queries& queries, Progress& p, std::uint64_t from, std::uint64_t to);
  Result<void> find_stray_rows(Queries& queries);
  void check_stray_rows();
  void check_leaf(Queries& queries, Progress& p, std::uint64_t index, const LeafRow* row);
  static void check_pruned(Progress& p, const LeafRow& row);
  void check_pruned_contents(Queries& queries, Progress& p, std::uint64_t index) const;
  Result<void> read_pruned_state(Queries& queries, Progress& p) const;
  std::optional<Checkpoint> open_stored(Progress& p, const StoredCheckpoint& row, Bytes root);
  void check_checkpoint(Progress& p, const StoredCheckpoint& row, Bytes root);
  void check_id(Queries& queries, Progress& p, std::uint64_t index, const ReadLeaf& leaf);
  void check_destroyed(Progress& p, std::uint64_t index, const Json& erasure);
  void check_columns(Progress& p, const LeafRow& row, const ReadLeaf& leaf);
  Result<void> check_contents(Queries& queries, Progress& p, std::uint64_t index,
                              const LeafHead& head);
  void check_content(Progress& p, std::uint64_t index, const ContentReference& reference,
                     const ContentRow& row);
  Result<void> check_canonical_outputs();
  Result<void> finish_erasures();
  VerifyReport report(bool readable);

  std::filesystem::path folder_;
  const VerifyOptions& options_;
  HighWater mark_;
  std::map<std::uint64_t, std::string> cosigned_;
  std::unique_ptr<ReadConnection> connection_;
  std::unique_ptr<Keys> keys_;
  std::string contents_unchecked_;
  Aead aead_;

  Json first_leaf_;
  Result<KeyChain> chain_ = Error{};  // the keys that sign this log
  std::optional<StoredCheckpoint> newest_;
  std::uint64_t rows_ = 0;  // leaves stored
  TimestampCheck timestamps_{std::nullopt};
  std::vector<StrayRow> stray_;  // of no leaf
  Progress progress_;
};

Result<VerifyReport> LogVerifier::run() {
  auto trust = trust_of(options_);
  if (!trust) return trust.error();
  timestamps_ = TimestampCheck(std::move(*trust));
  // 1. The mark before the log: on a live log it is never ahead of what is read after it.
  auto mark = read_high_water(folder_);
  if (!mark) return mark.error();
  mark_ = std::move(*mark);
  cosigned_ = cosigned_checkpoints(folder_);
  auto connection = ReadConnection::open(folder_ / "log.db");
  if (!connection) {
    const Error error = connection.error();
    if (error.code == Errc::not_found && (mark_.claimed_size() > 0 || mark_.damaged)) {
      progress_.findings.add(
          Verdict::truncated, "log_missing",
          "log.db is gone or empty, but the high-water mark says that the log had " +
              std::to_string(mark_.claimed_size()) + " leaves");
      return report(false);
    }
    if (error.code != Errc::tampered) return error;
    progress_.findings.tampered("database", error.what);
    return report(false);
  }
  connection_ = std::move(*connection);

  // 2. The file, its tables, its ends; whose log it is.
  if (auto done = check_database(); !done) return done.error();
  if (auto done = read_ends(); !done) {
    if (done.error().code != Errc::tampered) return done.error();
    progress_.findings.tampered("database", done.error().what);
    return report(false);
  }
  if (rows_ == 0 && !newest_ && mark_.present && !mark_.damaged && mark_.claimed_size() == 0) {
    return Error{Errc::not_found, "the log has no leaf yet", folder_.string(), ""};
  }
  if (auto done = choose_key(); !done) return done.error();
  check_keys_database();
  if (auto done = check_mark(); !done) return done.error();
  check_cosigned();
  if (auto done = announce_timestamps(); !done) return done.error();

  // 3. Every leaf, node, checkpoint and content.
  if (auto done = check_chunks(); !done) {
    if (done.error().code != Errc::tampered) return done.error();
    progress_.findings.tampered("database", done.error().what);
  }

  // 4. What only the whole tells.
  if (progress_.foreign_checkpoints > 0) {
    progress_.findings.tampered(
        "checkpoint_key",
        std::to_string(progress_.foreign_checkpoints) +
            " checkpoints are not signed by the log's key, the first of size " +
            std::to_string(progress_.first_foreign),
        progress_.first_foreign);
  }
  if (auto done = check_canonical_outputs(); !done) return done.error();
  if (auto done = finish_erasures(); !done) return done.error();
  timestamps_.finish(progress_.findings);
  const NodeCheck& nodes = progress_.nodes;
  const bool matches =
      newest_ && newest_->size == nodes.size() && nodes.complete() && newest_->root == nodes.root();
  progress_.nodes.finish(newest_ ? std::optional(newest_->root) : std::nullopt, progress_.findings);
  progress_.heads.conclude(matches, progress_.findings);
  if (!options_.policy.empty() && chain_ && newest_) {
    auto policy = check_policy(options_.policy, with_cosignatures(folder_, newest_->note), *chain_,
                               progress_.findings);
    if (!policy) return policy.error();
  }
  return report(true);
}

Result<void> LogVerifier::check_database() {
  Findings& findings = progress_.findings;
  return connection_->read([&](Queries&) -> Result<void> {
    Findings found = findings;
    auto checked = check_schema(connection_->database(), found);
    if (!checked) return checked;
    checked = check_integrity(connection_->database(), found);
    if (!checked) return checked;
    findings = std::move(found);
    return {};
  });
}

Result<void> LogVerifier::read_ends() {
  const Progress before = progress_;  // it may be read again
  return connection_->read([&](Queries& queries) -> Result<void> {
    auto newest = queries.newest_checkpoint();
    if (!newest) return newest.error();
    const auto leaves = queries.leaf_count();
    if (!leaves) return leaves.error();
    const auto first = queries.leaf(0);
    const Errc missing = first ? Errc::not_found : first.error().code;
    if (missing != Errc::not_found && missing != Errc::erased && missing != Errc::tampered) {
      return first.error();
    }
    newest_ = std::move(*newest);
    rows_ = *leaves;
    const auto json = first ? parse_json(*first) : Result<Json>(first.error());
    first_leaf_ = json && json->is_object() ? *json : Json();
    chain_ = read_key_chain(queries, rows_);
    progress_ = before;
    return find_stray_rows(queries);
  });
}

Result<void> LogVerifier::find_stray_rows(Queries& queries) {
  auto below = queries.rows_below();
  if (!below) return below.error();
  auto beyond = queries.rows_beyond(rows_);
  if (!beyond) return beyond.error();
  stray_ = std::move(*below);
  stray_.insert(stray_.end(), beyond->begin(), beyond->end());
  return queries.checkpoints(rows_, INT64_MAX, [&](const StoredCheckpoint& row, Bytes root) {
    open_stored(progress_, row, root);
    return true;
  });
}

/// Beyond the last leaf a cut leaves contents and signed checkpoints. Nothing of the log's own making leaves the rest.
void LogVerifier::check_stray_rows() {
  for (const StrayRow& row : stray_) {
    if (row.table == "checkpoint" && row.key > 0) continue;  // opened by find_stray_rows()
    const std::string name = "the row " + std::to_string(row.key) + " of the table " + row.table;
    if (row.table == "content" && row.key >= 0) {
      progress_.findings.add(Verdict::truncated, "content_extra",
                             name + " is of a leaf that is not there", rows_);
    } else {
      progress_.findings.tampered("stray_row", name + " is of no leaf that there can be");
    }
  }
}

Result<void> LogVerifier::choose_key() {
  Findings& findings = progress_.findings;
  if (!chain_) {
    const bool first = text_at(first_leaf_, "type") == "log_created";
    findings.tampered(first ? "key_chain" : "first_leaf",
                      first ? chain_.error().what : "leaf 0 does not say how the log was created",
                      0);
  }
  if (!options_.vkey.empty()) {
    auto given = parse_vkey(options_.vkey);
    if (!given) return given.error();
    // What follows is checked under the log's own keys: with another, all of it would be one fault said many times.
    if (chain_ && !chain_->contains(*given)) {
      findings.tampered(
          "key", "the log is signed by another key than the one given: " + chain_->newest().str());
    }
    if (!chain_) chain_ = KeyChain(std::move(*given));
  }
  const std::uint64_t size = newest_ ? newest_->size : 0;
  if (!newest_) findings.add(Verdict::truncated, "checkpoint_missing", "there is no checkpoint");
  if (rows_ < size) {
    findings.add(Verdict::truncated, "leaf_missing",
                 "the newest checkpoint covers " + std::to_string(size) +
                     " leaves, but there are " + std::to_string(rows_),
                 rows_);
  }
  if (rows_ > size) {
    findings.tampered("leaf_unsigned",
                      std::to_string(rows_ - size) + " leaves are under no checkpoint", size);
  }
  check_stray_rows();
  if (options_.checkpoint.empty() || !chain_) return {};
  return expect_given(options_.checkpoint, *chain_, rows_, progress_.heads, findings);
}

void LogVerifier::check_keys_database() {
  if (!options_.contents) return;
  auto keys = Keys::open(folder_, Keys::Mode::read);
  if (!keys) {
    contents_unchecked_ = keys.error().message();
    // Who was given the log without its keys has a whole log all the same. Beside a key they should be there; but a crash
    // may have left keys.db with a transaction that only a writer can take back, a newer program may have brought it to a
    // newer form, and another user may not read it: that nobody changed the contents cannot be said, nor that somebody did.
    const Errc code = keys.error().code;
    const bool unread = code == Errc::not_found || code == Errc::storage_failed ||
                        code == Errc::newer_version || code == Errc::invalid_input;
    if (unread && !holds_keys(folder_)) return;
    progress_.findings.add(unread ? Verdict::valid_unwitnessed : Verdict::tampered,
                           unread ? "contents_unchecked" : "keys",
                           "the contents' keys cannot be read: " + contents_unchecked_);
    return;
  }
  if (first_leaf_.is_object() && (*keys)->id() != text_at(first_leaf_, "keys_id")) {
    contents_unchecked_ = "keys.db belongs to another log";
    progress_.findings.tampered("keys_id", contents_unchecked_);
    return;
  }
  if (auto master = (*keys)->check_master(); !master) {
    contents_unchecked_ = master.error().message();
    progress_.findings.tampered("master_key", master.error().what);
    return;
  }
  keys_ = std::move(*keys);
}

Result<void> LogVerifier::check_mark() {
  Findings& findings = progress_.findings;
  if (!mark_.present) {
    findings.add(Verdict::truncated, "high_water_missing",
                 "there is no high-water mark: whether the log was cut cannot be told");
    return {};
  }
  if (mark_.damaged) {
    findings.tampered("high_water_damaged", "the high-water mark holds no signed note");
    return {};
  }
  if (!chain_) return {};
  const auto mark = newest_mark(mark_, chain_->all());
  if (!mark) {
    findings.tampered("high_water_key", "the high-water mark was signed by another log's key");
    return {};
  }
  if (mark->size > rows_) {
    findings.add(Verdict::truncated, "high_water",
                 "the log once had " + std::to_string(mark->size) + " leaves, now it has " +
                     std::to_string(rows_));
    return {};
  }
  progress_.heads.expect({"high_water_fork", "the high-water mark", *mark});
  return {};
}

/// What witnesses cosigned was kept outside of the log: a log that was rolled back lacks what they saw.
void LogVerifier::check_cosigned() {
  if (!chain_) return;
  for (const auto& [size, note] : cosigned_) {
    const auto head = open_checkpoint(note, *chain_);
    // By a key that this log does not announce, or not yet: it says nothing of these leaves.
    if (!head || head->size != size || head->origin != chain_->origin()) continue;
    if (size > rows_) {
      progress_.findings.add(Verdict::truncated, "cosigned_ahead",
                             "witnesses cosigned a tree of " + std::to_string(size) +
                                 " leaves, the log has " + std::to_string(rows_));
    } else {
      progress_.heads.expect({"cosigned_fork", "a cosigned checkpoint", *head});
    }
  }
}

Result<void> LogVerifier::announce_timestamps() {
  if (!chain_) return {};
  return connection_->read([&](Queries& queries) -> Result<void> {
    // It may be read again.
    TimestampCheck timestamps = timestamps_;
    HeadCheck heads = progress_.heads;
    Findings found = progress_.findings;
    auto read = queries.timestamps([&](std::uint64_t index, std::string_view bytes) {
      const auto leaf = parse_json(bytes);
      if (leaf && index < rows_) timestamps.announce(index, *leaf, *chain_, heads, found);
      return index < rows_;
    });
    if (!read && read.error().code == Errc::tampered) {
      found.tampered("database", read.error().what);
    } else if (!read) {
      return read;
    }
    timestamps_ = std::move(timestamps);
    progress_.heads = std::move(heads);
    progress_.findings = std::move(found);
    return {};
  });
}

Result<void> LogVerifier::check_chunks() {
  progress_.heads.reached(0, [] { return empty_root(); });
  for (std::uint64_t from = 0, to = 0; from < rows_; from = to) {
    // What is read again is begun again.
    auto chunk = connection_->read([&](Queries& queries) -> Result<Progress> {
      Progress p = progress_;
      const auto next = queries.next_leaf(from);
      if (!next) return next.error();
      const std::uint64_t begin = std::min(next->value_or(rows_), rows_);
      to = begin > from ? begin : from + std::min(kChunk, rows_ - from);
      auto done =
          begin > from ? check_gap(queries, p, from, to) : check_chunk(queries, p, from, to);
      if (!done) return done.error();
      return p;
    });
    if (!chunk) return chunk.error();
    progress_ = std::move(*chunk);
    if (options_.progress) options_.progress(to, rows_);
  }
  return {};
}

/// Leaves that are not there: one row with a huge index makes a gap that nobody could count through.
Result<void> LogVerifier::check_gap(Queries& queries, Progress& p, std::uint64_t from,
                                    std::uint64_t to) {
  p.findings.tampered("leaf_missing",
                      to - from == 1 ? "leaf " + std::to_string(from) + " is missing"
                                     : "leaves " + std::to_string(from) + " to " +
                                           std::to_string(to - 1) + " are missing",
                      from);
  p.leaves.skip();
  p.nodes.add_missing(to - from);
  return queries.checkpoints(from, to, [&](const StoredCheckpoint& row, Bytes root) {
    check_checkpoint(p, row, root);
    return true;
  });
}

Result<void> LogVerifier::check_chunk(Queries& queries, Progress& p, std::uint64_t from,
                                      std::uint64_t to) {
  if (auto state = read_pruned_state(queries, p); !state) return state;
  std::multimap<std::uint64_t, std::pair<StoredCheckpoint, ByteVector>> checkpoints;
  auto read = queries.checkpoints(from, to, [&](const StoredCheckpoint& row, Bytes root) {
    checkpoints.emplace(row.size, std::pair(row, ByteVector(root.begin(), root.end())));
    return true;
  });
  if (!read) return read;

  const auto at_size = [&](std::uint64_t size) {
    if (p.nodes.complete()) p.heads.reached(size, [&] { return p.nodes.root(); });
    const auto [begin, end] = checkpoints.equal_range(size);
    for (auto it = begin; it != end; ++it) check_checkpoint(p, it->second.first, it->second.second);
  };
  std::uint64_t next = from;
  read = queries.leaves(from, to, [&](const LeafRow& row) {
    for (; next < row.index; at_size(++next)) check_leaf(queries, p, next, nullptr);
    check_leaf(queries, p, row.index, &row);
    at_size(++next);
    return true;
  });
  for (; read && next < to; at_size(++next)) check_leaf(queries, p, next, nullptr);
  return read;
}

/// On a live log there may be more of it with each chunk.
Result<void> LogVerifier::read_pruned_state(Queries& queries, Progress& p) const {
  const auto leaves = queries.leaf_count();
  if (!leaves) return leaves.error();
  auto pruned = read_pruned(queries, *leaves);
  if (!pruned && pruned.error().code == Errc::invalid_input) {
    p.findings.tampered("prune", pruned.error().what);
    return {};
  }
  if (!pruned) return pruned.error();
  p.pruned = std::move(*pruned);
  p.erasures.pruned(p.pruned);
  return {};
}

/// Of a leaf that is gone its hashes stay, and the tree is computed from them.
void LogVerifier::check_pruned(Progress& p, const LeafRow& row) {
  Digest hash;
  if (!p.pruned.covers(row.index) || row.hashes.size() < hash.bytes.size()) {
    p.findings.tampered(
        "leaf_missing",
        "leaf " + std::to_string(row.index) + " is gone, and no leaf says that it was pruned",
        row.index);
    p.leaves.skip();
    p.nodes.add_missing();
    return;
  }
  // Nothing proves a column now: none may say anything. (The id and the time stay, and prove nothing.)
  if (row.type != "pruned" || row.summary != LeafSummary{}) {
    p.findings.tampered("leaf_columns",
                        "leaf " + std::to_string(row.index) +
                            " was pruned, and a column still says something of it",
                        row.index);
  }
  std::copy_n(row.hashes.begin(), hash.bytes.size(), hash.bytes.begin());
  p.nodes.add(hash, row.hashes, p.findings);
  p.leaves.pruned(row.index);
  ++p.gone;
}

/// Nothing proves a content of a leaf that is gone: none may be there.
void LogVerifier::check_pruned_contents(Queries& queries, Progress& p, std::uint64_t index) const {
  if (!options_.contents) return;
  const std::uint64_t first = index * kContentsMax;
  auto read = queries.contents(first, first + kContentsMax, [&](const ContentRow& row) {
    if (row.erased) return true;
    p.findings.tampered("content_extra",
                        "leaf " + std::to_string(index) + " was pruned, and has a content still",
                        index);
    return false;
  });
  if (!read) p.findings.tampered("database", read.error().what, index);
}

void LogVerifier::check_leaf(Queries& queries, Progress& p, std::uint64_t index,
                             const LeafRow* row) {
  if (row == nullptr) {
    p.findings.tampered("leaf_missing", "leaf " + std::to_string(index) + " is missing", index);
    p.leaves.skip();
    p.nodes.add_missing();
    return;
  }
  if (row->bytes.empty()) {
    check_pruned(p, *row);
    return check_pruned_contents(queries, p, index);
  }
  p.prune_unfinished |= p.pruned.covers(index);
  p.nodes.add(leaf_hash(row->bytes), row->hashes, p.findings);
  ++p.checked_leaves;
  const auto leaf = p.leaves.add(index, as_text(row->bytes), p.findings);
  if (!leaf) return;
  check_columns(p, *row, *leaf);
  check_id(queries, p, index, *leaf);
  if (leaf->head.type == "timestamp" && chain_) timestamps_.met(index, p.findings);
  if (leaf->head.type == "erasure" && options_.contents) {
    p.erasures.named(index, leaf->json, p.findings);
    check_destroyed(p, index, leaf->json);
  }
  if (auto done = check_contents(queries, p, index, leaf->head); !done) {
    p.findings.tampered("database", done.error().what, index);
  }
}

/// A subject's erasure names the key that it destroyed. An older keys.db that was put back has it still.
void LogVerifier::check_destroyed(Progress& p, std::uint64_t index, const Json& erasure) {
  const Json* const named = member(erasure, "key");
  // Of the very last leaf the key may be about to go: now, or when the log is opened next.
  if (!keys_ || named == nullptr || !named->is_number_integer() || index + 1 == rows_) return;
  const auto key = keys_->key(named->get<std::int64_t>());
  if (!key && key.error().code != Errc::tampered) return;  // it is gone, or cannot be read
  p.findings.tampered("key_not_destroyed",
                      "leaf " + std::to_string(index) + " says that the key " + named->dump() +
                          " was destroyed, but keys.db holds it",
                      index);
}

void LogVerifier::check_columns(Progress& p, const LeafRow& row, const ReadLeaf& leaf) {
  const bool agree = std::equal(row.id.begin(), row.id.end(), leaf.head.id.bytes.begin(),
                                leaf.head.id.bytes.end()) &&
                     row.type == leaf.head.type && row.time_us == leaf.head.time_us &&
                     row.summary == summary_of(leaf.json);
  if (!agree) {
    p.findings.tampered(
        "leaf_columns",
        "leaf " + std::to_string(row.index) + ": a column does not say what the leaf says",
        row.index);
  }
}

void LogVerifier::check_id(Queries& queries, Progress& p, std::uint64_t index,
                           const ReadLeaf& leaf) {
  const auto first = queries.first_index_of(leaf.head.id);
  if (!first) {
    p.findings.tampered("database", first.error().what, index);
  } else if (*first && **first < index) {
    check_shared_id(**first, index, leaf, p.findings);
  }
}

/// What a checkpoint says, if the log's key signed it and its columns say the same.
std::optional<Checkpoint> LogVerifier::open_stored(Progress& p, const StoredCheckpoint& row,
                                                   Bytes root) {
  const std::string name = "the checkpoint of size " + std::to_string(row.size);
  if (!chain_) return std::nullopt;
  auto opened = open_checkpoint(row.note, *chain_);
  if (!opened) {
    if (opened.error().code == Errc::not_found) {
      if (p.foreign_checkpoints++ == 0) p.first_foreign = row.size;
    } else {
      p.findings.tampered("checkpoint_signature", name + ": " + opened.error().what, row.size);
    }
    return std::nullopt;
  }
  if (opened->origin != chain_->origin()) {
    p.findings.tampered("checkpoint_origin", name + " is of another log, " + opened->origin,
                        row.size);
    return std::nullopt;
  }
  if (opened->size != row.size || as_text(root) != as_text(opened->root.view())) {
    p.findings.tampered("checkpoint_columns", name + ": a column does not say what the note says",
                        row.size);
    if (opened->size != row.size) return std::nullopt;
  }
  return std::move(*opened);
}

void LogVerifier::check_checkpoint(Progress& p, const StoredCheckpoint& row, Bytes root) {
  const auto opened = open_stored(p, row, root);
  if (!opened) return;
  if (!p.leaves.incomplete() && row.open_from >= p.leaves.pruned_below() &&
      row.open_from != p.leaves.open_from(row.size)) {
    p.findings.tampered("checkpoint_columns",
                        "the checkpoint of size " + std::to_string(row.size) +
                            ": a column does not say which request was open",
                        row.size);
  }
  if (p.nodes.complete()) p.heads.own(*opened, p.nodes.root());
}

Result<void> LogVerifier::check_contents(Queries& queries, Progress& p, std::uint64_t index,
                                         const LeafHead& head) {
  if (!options_.contents) return {};
  const std::uint64_t first = index * kContentsMax;
  std::uint64_t seen = 0;
  auto read = queries.contents(first, first + kContentsMax, [&](const ContentRow& row) {
    const std::uint64_t place = row.id - first;
    if (place >= head.contents.size()) {
      p.findings.tampered("content_extra",
                          "leaf " + std::to_string(index) + " has a content that it does not name",
                          index);
      return true;
    }
    ++seen;
    check_content(p, index, head.contents[place], row);
    return true;
  });
  if (!read) return read;
  if (seen < head.contents.size()) {
    p.findings.tampered("content_missing",
                        "leaf " + std::to_string(index) + " lacks " +
                            std::to_string(head.contents.size() - seen) + " of its contents",
                        index);
  }
  return {};
}

void LogVerifier::check_content(Progress& p, std::uint64_t index, const ContentReference& reference,
                                const ContentRow& row) {
  const std::string name = "leaf " + std::to_string(index) + ", " + reference.field;
  if (row.erased) {
    ++p.erased;
    p.erasures.gone(index, reference.field);
    return;
  }
  if (!keys_) return;  // said once, in the report
  const auto kek = keys_->key(row.kek);
  if (!kek && kek.error().code == Errc::erased) {
    ++p.erased;
    p.erasures.gone(index, reference.field);
    return;
  }
  if (!kek) {
    p.findings.tampered("content_key", name + ": " + kek.error().what, index);
    return;
  }
  const auto dek = unwrap_key(aead_, *kek, row.dek, dek_purpose(index));
  if (!dek) {
    p.findings.tampered("content_key", name + ": the record's key does not open", index);
    return;
  }
  const auto opened = unseal_content(aead_, *dek, index, reference, row.codec, row.sealed);
  if (!opened) {
    p.findings.tampered("content_sealed", name + ": " + opened.error().what, index);
    return;
  }
  if (!matches(reference, *opened)) {
    p.findings.tampered("content_commitment", name + " is not what the leaf committed to", index);
    return;
  }
  ++p.checked_contents;
}

Result<void> LogVerifier::check_canonical_outputs() {
  Findings& findings = progress_.findings;
  return connection_->read([&](Queries& queries) -> Result<void> {
    Findings found = findings;
    auto read =
        queries.canonical_outputs([&](Bytes key, std::uint64_t leaf, std::int64_t expires_us) {
          const auto bytes = queries.leaf(leaf);
          const auto json = bytes ? parse_json(*bytes) : Result<Json>(bytes.error());
          const auto head = json ? read_leaf_head(*json) : Result<LeafHead>(json.error());
          const bool agrees = head && head->canonical &&
                              as_text(head->canonical->key.view()) == as_text(key) &&
                              head->canonical->expires_us == expires_us;
          if (!agrees) {
            found.tampered("canonical_output",
                           "a canonical output points to leaf " + std::to_string(leaf) +
                               ", which does not say so",
                           leaf);
          }
          return true;
        });
    if (!read && read.error().code == Errc::tampered) {
      found.tampered("database", read.error().what);
    } else if (!read) {
      return read;
    }
    findings = std::move(found);
    return {};
  });
}

/// Contents go by an erasure, and an erasure has its leaf. Gone without one, somebody took them away.
Result<void> LogVerifier::finish_erasures() {
  auto read = connection_->read([&](Queries& queries) -> Result<void> {
    if (auto state = read_pruned_state(queries, progress_); !state) return state;
    return queries.governance(rows_, [&](std::uint64_t, std::string_view bytes) {
      const auto json = parse_json(bytes);
      if (json && text_at(*json, "type") == "erasure") progress_.erasures.named_meanwhile(*json);
      return true;
    });
  });
  if (!read && read.error().code != Errc::tampered) return read;
  progress_.erasures.finish(progress_.findings);
  return {};
}

VerifyReport LogVerifier::report(bool readable) {
  VerifyReport report;
  report.verdict = progress_.findings.verdict();
  report.problems = progress_.findings.take_problems();
  report.key_was_given = !options_.vkey.empty();
  report.checked_leaves = progress_.checked_leaves;
  report.checked_contents = progress_.checked_contents;
  report.erased = progress_.erased;
  report.contents_unchecked = contents_unchecked_;
  report.timestamps = timestamps_.summary();
  report.minimum_index = progress_.pruned.minimum_index;
  report.pruned = progress_.gone;
  report.prune_unfinished = progress_.prune_unfinished;
  if (!readable) return report;
  report.size = progress_.nodes.size();
  report.root = progress_.nodes.root();
  if (chain_) {
    report.origin = chain_->origin();
    report.vkey = chain_->newest().str();
    for (const auto& link : chain_->links()) report.keys.push_back(link.key.str());
  }
  return report;
}

}  // namespace

Result<VerifyReport> verify_log(const std::filesystem::path& folder, const VerifyOptions& options) {
  return LogVerifier(folder, options).run();
}

}  // namespace verbatim::audit
