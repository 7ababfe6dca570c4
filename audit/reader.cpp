#include "audit/reader.hpp"

#include "audit/cosigned.hpp"
#include "audit/keys.hpp"
#include "audit/proof.hpp"
#include "audit/read_connection.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::string_view kOpen = "open";  // status of an exchange without response
constexpr std::string_view kComplete = "complete";

Error no_leaf(std::string what, const std::filesystem::path& folder) {
  return Error{Errc::not_found, std::move(what), folder.string(), ""};
}

RecordSummary summarize(const LeafRow& row) {
  RecordSummary record;
  if (row.id.size() == record.id.bytes.size()) {
    std::copy(row.id.begin(), row.id.end(), record.id.bytes.begin());
  }
  record.index = row.index;
  record.time_us = row.time_us;
  record.type = row.type;
  record.status = row.summary.status.value_or("");
  record.model = row.summary.model.value_or("");
  record.route = row.summary.route.value_or("");
  record.cache = row.summary.cache.value_or("");
  record.tenant = row.summary.tenant.value_or("");
  return record;
}

}  // namespace

class LogReader::Impl {
 public:
  std::filesystem::path folder;
  std::unique_ptr<ReadConnection> connection;
  VerifierKey key;             // the newest
  std::unique_ptr<Keys> keys;  // opened when a content is first asked for
  Aead aead;
  ErasureIndex erasures;

  Result<KeyChain> load_keys(Queries& queries);
  Result<Checkpoint> newest(Queries& queries, std::string& note);
  Result<StoredLeaf> leaf(Queries& queries, std::uint64_t index) const;
  Result<std::vector<RecordSummary>> list(Queries& queries, const RecordFilter& filter) const;
  Result<std::vector<RecordPlace>> places(Queries& queries, const RecordFilter& filter) const;
  Result<OpenedContent> content(Queries& queries, std::uint64_t index, std::string_view field);
  Result<std::string> receipt(Queries& queries, std::uint64_t index, const std::string& note,
                              const std::string& token);
};

Result<KeyChain> LogReader::Impl::load_keys(Queries& queries) {
  const auto leaves = queries.leaf_count();
  if (!leaves) return leaves.error();
  auto chain = read_key_chain(queries, *leaves);
  if (chain) {
    key = chain->newest();
    return chain;
  }
  Error error = chain.error();
  if (error.where.empty()) error.where = folder.string();
  if (error.advice.empty()) error.advice = "verify the log";
  return error;
}

Result<Checkpoint> LogReader::Impl::newest(Queries& queries, std::string& note) {
  const auto stored = queries.newest_checkpoint();
  if (!stored) return stored.error();
  if (!*stored) return no_leaf("the log has no checkpoint", folder);
  note = with_cosignatures(folder, (*stored)->note);
  // Read each time: the key may have changed since.
  const auto chain = load_keys(queries);
  if (!chain) return chain.error();
  auto checkpoint = open_checkpoint(note, *chain);
  if (!checkpoint || checkpoint->size != (*stored)->size || checkpoint->root != (*stored)->root) {
    return Error{Errc::tampered, "the newest checkpoint is not what the log's key signed",
                 folder.string(), "verify the log"};
  }
  return checkpoint;
}

Result<StoredLeaf> LogReader::Impl::leaf(Queries& queries, std::uint64_t index) const {
  auto bytes = queries.leaf(index);
  if (!bytes) return bytes.error();
  auto json = parse_json(*bytes);
  if (!json || !json->is_object()) {
    return Error{Errc::tampered, "leaf " + std::to_string(index) + " is not a JSON object",
                 folder.string(), "verify the log"};
  }
  return StoredLeaf{index, std::move(*bytes), std::move(*json)};
}

namespace {

LeafSelection selection_of(const RecordFilter& filter) {
  return {filter.since_us.value_or(std::numeric_limits<std::int64_t>::min()),
          filter.until_us.value_or(std::numeric_limits<std::int64_t>::max()),
          filter.type,
          filter.model,
          filter.tenant,
          filter.newest_first};
}

/// How the exchange of a request ended.
Result<void> add_end(Queries& queries, RecordSummary& record) {
  const auto response = queries.response_of(Bytes(record.id.bytes));
  if (!response) return response.error();
  record.status = kOpen;
  if (*response) {
    record.response_index = (*response)->index;
    record.status = (*response)->summary.status.value_or("");
    record.cache = (*response)->summary.cache.value_or("");
  }
  return {};
}

/// The records that fit, in the filter's order: all, or the first so many.
class Chosen {
 public:
  explicit Chosen(const RecordFilter& filter) : filter_(filter) {}
  void add(RecordSummary record) {
    records_.push_back(std::move(record));
    if (filter_.limit != 0 && records_.size() >= 2 * filter_.limit) keep_the_first();
  }
  std::vector<RecordSummary> take() {
    keep_the_first();
    return std::move(records_);
  }
  /// Whether no record from before `time_us` can be among the first any more.
  [[nodiscard]] bool settled(std::int64_t time_us) {
    if (!filter_.newest_first || filter_.limit == 0 || records_.size() < filter_.limit)
      return false;
    keep_the_first();
    return records_.back().time_us > time_us;
  }

 private:
  void keep_the_first() {
    std::sort(records_.begin(), records_.end(),
              [newest = filter_.newest_first](const RecordSummary& a, const RecordSummary& b) {
                const auto x = std::pair(a.time_us, a.index), y = std::pair(b.time_us, b.index);
                return newest ? y < x : x < y;
              });
    if (filter_.limit != 0 && records_.size() > filter_.limit) records_.resize(filter_.limit);
  }
  const RecordFilter& filter_;
  std::vector<RecordSummary> records_;
};

/// Exchanges without an end: none is older than the newest checkpoint says.
Result<std::vector<RecordSummary>> list_open(Queries& queries, const RecordFilter& filter) {
  const auto newest = queries.newest_checkpoint();
  if (!newest) return newest.error();
  const auto leaves = queries.leaf_count();
  if (!leaves) return leaves.error();
  Chosen chosen(filter);
  Result<void> failed;
  const auto read =
      queries.leaves(*newest ? (*newest)->open_from : 0, *leaves, [&](const LeafRow& row) {
        RecordSummary record = summarize(row);
        if (!fits_but_for_status(filter, record)) return true;
        failed = add_end(queries, record);
        if (failed && record.status == kOpen) chosen.add(std::move(record));
        return failed.has_value();
      });
  if (!read) return read.error();
  if (!failed) return failed.error();
  return chosen.take();
}

/// Exchanges by how they ended: what did not end well is seldom, and is looked up instead of looked for.
Result<std::vector<RecordSummary>> list_status(Queries& queries, const RecordFilter& filter) {
  Chosen chosen(filter);
  Result<void> failed;
  // A request is older than its end (as the clock had it): the newest are found before all have been looked at.
  const auto read = queries.ends_of_status(filter.status, [&](Bytes id, std::int64_t ended_us) {
    if (chosen.settled(ended_us)) return false;
    const auto request = queries.request_of(id);
    if (!request) {
      failed = request.error();
      return false;
    }
    if (!*request) return true;  // pruned
    LeafRow row = **request;
    row.id = id;
    RecordSummary record = summarize(row);
    if (!fits_but_for_status(filter, record)) return true;
    failed = add_end(queries, record);
    if (failed && record.status == filter.status) chosen.add(std::move(record));
    return failed.has_value();
  });
  if (!read) return read.error();
  if (!failed) return failed.error();
  return chosen.take();
}

}  // namespace

Result<std::vector<RecordSummary>> LogReader::Impl::list(Queries& queries,
                                                         const RecordFilter& filter) const {
  if (filter.type == "request" && filter.status == kOpen) return list_open(queries, filter);
  // What is not looked up ended well, as most exchanges do: those of a time are looked through.
  if (filter.type == "request" && !filter.status.empty() && filter.status != kComplete)
    return list_status(queries, filter);
  std::vector<RecordSummary> records;
  Result<void> failed;
  const auto read = queries.leaves_by_time(selection_of(filter), [&](const LeafRow& row) {
    RecordSummary record = summarize(row);
    if (!fits_but_for_status(filter, record)) return true;
    if (row.type == "request") failed = add_end(queries, record);
    if (!failed) return false;
    if (!filter.status.empty() && record.status != filter.status) return true;
    records.push_back(std::move(record));
    return filter.limit == 0 || records.size() < filter.limit;
  });
  if (!read) return read.error();
  if (!failed) return failed.error();
  return records;
}

Result<std::vector<RecordPlace>> LogReader::Impl::places(Queries& queries,
                                                         const RecordFilter& filter) const {
  std::vector<RecordPlace> places;
  const auto read = queries.leaves_by_time(selection_of(filter), [&](const LeafRow& row) {
    const RecordSummary record = summarize(row);
    if (!fits_but_for_status(filter, record)) return true;
    places.push_back({record.id, record.index});
    return filter.limit == 0 || places.size() < filter.limit;
  });
  if (!read) return read.error();
  return places;
}

Result<OpenedContent> LogReader::Impl::content(Queries& queries, std::uint64_t index,
                                               std::string_view field) {
  const auto stored = leaf(queries, index);
  if (!stored) return stored.error();
  const auto head = read_leaf_head(stored->json);
  if (!head) return head.error();
  const auto& references = head->contents;
  const auto reference = std::find_if(references.begin(), references.end(),
                                      [&](const auto& r) { return r.field == field; });
  const std::string where = "leaf " + std::to_string(index) + ", " + std::string(field);
  if (reference == references.end()) {
    return Error{Errc::not_found, "the leaf has no such content", where, ""};
  }
  const std::uint64_t id =
      index * kContentsMax + static_cast<std::uint64_t>(reference - references.begin());
  Result<OpenedContent> result = Error{Errc::tampered, "the content is missing", where, ""};
  auto read = queries.contents(id, id + 1, [&](const ContentRow& row) {
    result = [&]() -> Result<OpenedContent> {
      if (row.erased) {
        const auto by = erasures.find(queries, index, reference->field);
        if (!by) return by.error();
        if (*by) return erased_error(index, field, *by);
        return Error{Errc::tampered, "the content is gone, and no erasure leaf names it", where,
                     "verify the log"};
      }
      const auto kek = keys->key(row.kek);
      if (!kek) return kek.error();
      const auto dek = unwrap_key(aead, *kek, row.dek, dek_purpose(index));
      if (!dek) return Error{Errc::tampered, "the record's key does not open", where, ""};
      auto opened = unseal_content(aead, *dek, index, *reference, row.codec, row.sealed);
      if (!opened) return opened.error();
      if (!matches(*reference, *opened)) {
        return Error{Errc::tampered, "the content is not what the leaf committed to", where,
                     "verify the log"};
      }
      return OpenedContent{reference->field, opened->salt, std::move(opened->bytes)};
    }();
    return false;
  });
  if (!read) return read.error();
  return result;
}

Result<std::string> LogReader::Impl::receipt(Queries& queries, std::uint64_t index,
                                             const std::string& note, const std::string& token) {
  TlogProof proof;
  proof.index = index;
  const auto chain = load_keys(queries);
  if (!chain) return chain.error();
  proof.checkpoint = note;
  const auto head =
      note.empty() ? newest(queries, proof.checkpoint) : open_checkpoint(note, *chain);
  if (!head) return head.error();
  const auto bytes = queries.leaf(index);
  if (!bytes) return bytes.error();
  auto hashes = make_inclusion_proof(queries.nodes(), index, head->size);
  if (!hashes) return hashes.error();
  proof.hashes = std::move(*hashes);
  // Authenticated by nothing but the proof itself, which leads from this leaf's hash: a receipt needs no other file.
  proof.extra = *bytes;
  Json rotations = Json::array();
  for (const KeyChain::Link& link : chain->links()) {
    if (!link.note.empty()) rotations.push_back(link.note);
  }
  if (!rotations.empty() || !token.empty()) proof.extra += "\n" + canonical(rotations);
  if (!token.empty()) proof.extra += "\n" + to_base64(as_bytes(token));
  // Never hand out what would not verify.
  const auto verified = verify_tlog_proof(proof, as_bytes(*bytes), *chain);
  if (!verified) return verified.error();
  return format_tlog_proof(proof);
}

LogReader::LogReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogReader::~LogReader() = default;

Result<std::unique_ptr<LogReader>> LogReader::open(const std::filesystem::path& data_dir) {
  auto impl = std::make_unique<Impl>();
  impl->folder = data_dir;
  auto connection = ReadConnection::open(data_dir / "log.db");
  if (!connection) {
    if (connection.error().code == Errc::not_found) return no_leaf("there is no log", data_dir);
    return connection.error();
  }
  impl->connection = std::move(*connection);
  const auto keys = impl->connection->read([&](Queries& q) { return impl->load_keys(q); });
  if (!keys) return keys.error();
  return std::unique_ptr<LogReader>(new LogReader(std::move(impl)));
}

std::string LogReader::origin() const { return impl_->key.name; }
std::string LogReader::vkey() const { return impl_->key.str(); }
std::filesystem::path LogReader::data_dir() const { return impl_->folder; }

Result<KeyChain> LogReader::keys() {
  return impl_->connection->read([this](Queries& q) { return impl_->load_keys(q); });
}

Result<std::string> LogReader::checkpoint() {
  return impl_->connection->read([this](Queries& q) -> Result<std::string> {
    std::string note;
    const auto head = impl_->newest(q, note);
    if (!head) return head.error();
    return note;
  });
}

Result<std::string> LogReader::signed_checkpoint() {
  return impl_->connection->read([this](Queries& q) -> Result<std::string> {
    const auto stored = q.newest_checkpoint();
    if (!stored) return stored.error();
    if (!*stored) return no_leaf("the log has no checkpoint", impl_->folder);
    return (*stored)->note;
  });
}

Result<std::uint64_t> LogReader::size() {
  return impl_->connection->read([](Queries& q) { return q.leaf_count(); });
}

Result<StoredLeaf> LogReader::leaf(std::uint64_t index) {
  return impl_->connection->read([&](Queries& q) { return impl_->leaf(q, index); });
}

Result<std::vector<StoredLeaf>> LogReader::leaves_of(const Uuid& id) {
  return impl_->connection->read([&](Queries& q) -> Result<std::vector<StoredLeaf>> {
    const auto indices = q.indices_of(id);
    if (!indices) return indices.error();
    if (indices->empty()) return no_leaf("there is no record " + id.str(), impl_->folder);
    std::vector<StoredLeaf> leaves;
    for (const std::uint64_t index : *indices) {
      auto leaf = impl_->leaf(q, index);
      if (!leaf) return leaf.error();
      leaves.push_back(std::move(*leaf));
    }
    return leaves;
  });
}

Result<std::vector<RecordSummary>> LogReader::list(const RecordFilter& filter) {
  return impl_->connection->read([&](Queries& q) { return impl_->list(q, filter); });
}

Result<std::vector<RecordPlace>> LogReader::places(const RecordFilter& filter) {
  // A status is of the response, which is not looked at here.
  if (!filter.status.empty() || filter.type != "request") return RecordSource::places(filter);
  return impl_->connection->read([&](Queries& q) { return impl_->places(q, filter); });
}

Result<OpenedContent> LogReader::content(std::uint64_t index, std::string_view field) {
  if (!impl_->keys) {
    auto keys = Keys::open(impl_->folder, Keys::Mode::read);
    if (!keys) return keys.error();
    impl_->keys = std::move(*keys);
  }
  return impl_->connection->read([&](Queries& q) { return impl_->content(q, index, field); });
}

Result<std::vector<Hold>> LogReader::holds() {
  return impl_->connection->read([](Queries& q) { return active_holds(q); });
}

Result<std::vector<Digest>> LogReader::inclusion_proof(std::uint64_t index,
                                                       std::uint64_t tree_size) {
  return impl_->connection->read([&](Queries& q) -> Result<std::vector<Digest>> {
    const auto count = q.leaf_count();
    if (!count) return count.error();
    if (tree_size > *count) {
      return Error{
          Errc::invalid_input,
          "the log has " + std::to_string(*count) + " leaves, not " + std::to_string(tree_size), "",
          ""};
    }
    return make_inclusion_proof(q.nodes(), index, tree_size);
  });
}

Result<std::string> LogReader::tile(const TileName& name) {
  return impl_->connection->read([&](Queries& q) -> Result<std::string> {
    const auto count = q.leaf_count();
    if (!count) return count.error();
    const int level = 8 * name.level;
    const bool there = name.level >= 0 && name.level < 8 && name.width >= 1 &&
                       name.width <= kTileWidth && name.index <= *count / kTileWidth &&
                       name.index * kTileWidth + name.width <= *count >> level;
    if (!there) return no_leaf("there is no " + tile_path(name), impl_->folder);
    std::string bytes;
    for (std::uint64_t i = 0; i < name.width; ++i) {
      const auto hash = q.node(level, name.index * kTileWidth + i);
      if (!hash) return hash.error();
      bytes += as_text(hash->view());
    }
    return bytes;
  });
}

Result<std::string> LogReader::entries(std::uint64_t index, std::uint64_t width) {
  return impl_->connection->read([&](Queries& q) -> Result<std::string> {
    std::string bundle;
    std::uint64_t found = 0;
    bool intact = true;
    const std::uint64_t from = index * kTileWidth;
    const bool sane = index < 1ull << 40 && width >= 1 && width <= kTileWidth;
    auto read = q.leaves(from, sane ? from + width : from, [&](const LeafRow& row) {
      if (row.bytes.empty()) return false;  // pruned
      intact = as_text(row.hashes).substr(0, 32) == as_text(leaf_hash(row.bytes).view());
      append_entry(bundle, as_text(row.bytes));
      ++found;
      return intact;
    });
    if (!read) return read.error();
    if (!intact) {
      return Error{Errc::tampered,
                   "leaf " + std::to_string(from + found - 1) + " does not hash to its tree node",
                   impl_->folder.string(), "verify the log (verbatim verify)"};
    }
    if (found != width) {
      return no_leaf("there is no " + entries_path(index, width), impl_->folder);
    }
    return bundle;
  });
}

Result<std::string> LogReader::receipt(std::uint64_t index, const std::string& note,
                                       const std::string& token) {
  return impl_->connection->read([&](Queries& q) { return impl_->receipt(q, index, note, token); });
}

Result<void> LogReader::timestamps(const std::function<bool(const StoredLeaf&)>& each) {
  // Collected first: a snapshot may be read again.
  const auto indices =
      impl_->connection->read([&](Queries& q) -> Result<std::vector<std::uint64_t>> {
        std::vector<std::uint64_t> found;
        auto read = q.timestamps([&](std::uint64_t index, std::string_view) {
          found.push_back(index);
          return true;
        });
        if (!read) return read.error();
        return found;
      });
  if (!indices) return indices.error();
  for (const std::uint64_t index : *indices) {
    const auto stored = leaf(index);
    if (!stored) return stored.error();
    if (!each(*stored)) return {};
  }
  return {};
}

Result<std::string> LogReader::checkpoint_with(const Digest& digest) {
  return impl_->connection->read([&](Queries& q) -> Result<std::string> {
    std::optional<std::string> found;
    auto read = q.newest_checkpoints([&](const std::string& note) {
      if (sha256(note) == digest) found = note;
      return !found;
    });
    if (!read) return read.error();
    if (found) return *found;
    return no_leaf("no checkpoint of this log has the SHA-256 " + digest.hex(), impl_->folder);
  });
}

}  // namespace verbatim::audit
