#include "audit/bundle_reader.hpp"

#include "audit/archive.hpp"
#include "audit/content.hpp"
#include "audit/erasure.hpp"
#include "audit/json_member.hpp"
#include "audit/leaf.hpp"
#include "audit/merkle.hpp"
#include "audit/tiles.hpp"
#include "audit/verify_log.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::uint64_t kEntriesBytesMax = kTileWidth * (kLeafBytesMax + 2);

Error not_as_verified(const std::string& what, const std::filesystem::path& folder) {
  return Error{Errc::tampered, what + " is not what was verified", folder.string(),
               "did somebody change the bundle meanwhile?"};
}

RecordSummary summarize(std::uint64_t index, const LeafHead& head, const Json& leaf) {
  const LeafSummary summary = summary_of(leaf);
  RecordSummary record;
  record.id = head.id;
  record.index = index;
  record.time_us = head.time_us;
  record.type = head.type;
  record.status = summary.status.value_or("");
  record.model = summary.model.value_or("");
  record.route = summary.route.value_or("");
  record.cache = summary.cache.value_or("");
  record.tenant = summary.tenant.value_or("");
  return record;
}

/// A folder of that name is as good as nothing.
bool is_absent(const std::filesystem::path& path) {
  std::error_code error;
  return !std::filesystem::is_regular_file(path, error);
}

bool fits(const RecordFilter& filter, const RecordSummary& record) {
  return fits_but_for_status(filter, record) &&
         (filter.status.empty() || record.status == filter.status);
}

}  // namespace

class BundleReader::Impl {
 public:
  explicit Impl(std::filesystem::path at) : folder(std::move(at)) {}

  /// Reads all leaves once, and keeps what it takes to know each again.
  Result<void> index_leaves();
  Result<StoredLeaf> leaf(std::uint64_t index);
  Result<void> each_leaf(const std::function<void(StoredLeaf)>& each);

  std::optional<ExtractedArchive> extracted;  // of a zip
  std::filesystem::path folder;
  VerifyReport verified;
  std::string note;
  std::optional<KeyChain> chain;
  std::vector<std::pair<Uuid, std::uint64_t>> by_id;                        // sorted
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> erasures;  // content -> its leaf

 private:
  Result<void> load_tile(std::uint64_t tile);
  Result<StoredLeaf> kept_leaf(std::uint64_t index);
  Result<void> read_pruned_hashes();
  void take_erasure(const StoredLeaf& leaf);
  Result<void> take_key(const StoredLeaf& leaf);

  std::vector<Digest> hashes_;  // of the leaves
  std::string tile_bytes_;      // of the entries that were read last
  std::vector<std::string_view> tile_leaves_;
  std::optional<std::uint64_t> tile_;
};

Result<void> BundleReader::Impl::load_tile(std::uint64_t tile) {
  if (tile_ == tile) return {};
  tile_.reset();
  const std::uint64_t width = std::min(kTileWidth, verified.size - tile * kTileWidth);
  const std::string name = entries_path(tile, width);
  auto bytes = read_file(folder / name, kEntriesBytesMax);
  if (!bytes) return bytes.error();
  tile_bytes_ = std::move(*bytes);
  auto leaves = split_entries(tile_bytes_);
  if (!leaves || leaves->size() != width) return not_as_verified(name, folder);
  tile_leaves_ = std::move(*leaves);
  tile_ = tile;
  return {};
}

Result<StoredLeaf> BundleReader::Impl::leaf(std::uint64_t index) {
  const std::string name = "leaf " + std::to_string(index);
  if (index >= verified.size) return Error{Errc::not_found, "there is no " + name, folder, ""};
  if (index < verified.minimum_index) return kept_leaf(index);
  if (auto loaded = load_tile(index / kTileWidth); !loaded) return loaded.error();
  const std::string_view bytes = tile_leaves_[index % kTileWidth];
  const Digest hash = leaf_hash(as_bytes(bytes));
  if (index == hashes_.size()) hashes_.push_back(hash);  // only while they are indexed
  auto json = parse_json(bytes);
  if (hash != hashes_[index] || !json || !json->is_object()) return not_as_verified(name, folder);
  return StoredLeaf{index, std::string(bytes), std::move(*json)};
}

/// Below the minimum index of a log that was pruned few leaves are there, each in a file of its own.
Result<StoredLeaf> BundleReader::Impl::kept_leaf(std::uint64_t index) {
  const std::string name = "leaf " + std::to_string(index);
  const auto place = folder / ("kept/" + std::to_string(index));
  auto bytes = read_file(place, kLeafBytesMax);
  if (is_absent(place)) {
    return Error{Errc::erased, name + " was pruned before the bundle was made", folder, ""};
  }
  if (!bytes) return bytes.error();
  auto json = parse_json(*bytes);
  if (leaf_hash(as_bytes(*bytes)) != hashes_[index] || !json || !json->is_object()) {
    return not_as_verified(name, folder);
  }
  return StoredLeaf{index, std::move(*bytes), std::move(*json)};
}

Result<void> BundleReader::Impl::read_pruned_hashes() {
  for (std::uint64_t tile = 0; tile < verified.minimum_index / kTileWidth; ++tile) {
    const std::string name = tile_path({0, tile, kTileWidth});
    const auto bytes = read_file(folder / name, kTileWidth * 32);
    if (!bytes) return bytes.error();
    if (bytes->size() != kTileWidth * 32) return not_as_verified(name, folder);
    for (std::size_t at = 0; at < bytes->size(); at += 32) {
      const Bytes hash = as_bytes(*bytes).subspan(at, 32);
      std::copy(hash.begin(), hash.end(), hashes_.emplace_back().bytes.begin());
    }
  }
  return {};
}

Result<void> BundleReader::Impl::each_leaf(const std::function<void(StoredLeaf)>& each) {
  for (std::uint64_t index = 0; index < verified.size; ++index) {
    auto read = leaf(index);
    if (!read && read.error().code == Errc::erased) continue;  // pruned
    if (!read) return read.error();
    each(std::move(*read));
  }
  return {};
}

Result<void> BundleReader::Impl::index_leaves() {
  auto checkpoint = read_file(folder / "checkpoint", kNoteBytesMax);
  if (!checkpoint) return checkpoint.error();
  note = std::move(*checkpoint);
  hashes_.reserve(verified.size);
  if (auto pruned = read_pruned_hashes(); !pruned) return pruned;
  CompactRange tree;
  for (const Digest& hash : hashes_) tree.append(hash, [](const Digest&) {});
  Result<void> keys_fit;
  const auto read = each_leaf([&](const StoredLeaf& leaf) {
    if (leaf.index >= tree.size()) tree.append(hashes_.back(), [](const Digest&) {});
    if (const auto head = read_leaf_head(leaf.json)) by_id.emplace_back(head->id, leaf.index);
    take_erasure(leaf);
    if (keys_fit) keys_fit = take_key(leaf);
  });
  if (!read) return read;
  std::sort(by_id.begin(), by_id.end());
  if (!keys_fit) return keys_fit;
  // These are the leaves that verification saw, and the head that it believed.
  const auto head = chain ? open_checkpoint(note, *chain) : Result<Checkpoint>(Checkpoint());
  if (tree.root() != verified.root || !head || head->root != verified.root) {
    return not_as_verified("the tree", folder);
  }
  return {};
}

void BundleReader::Impl::take_erasure(const StoredLeaf& leaf) {
  if (text_at(leaf.json, "type") != "erasure") return;
  const auto erased = read_erased(leaf.json);
  if (!erased) return;
  for (const ErasedContents& contents : *erased) {
    for (const std::string& field : contents.fields) {
      erasures.emplace(std::pair(contents.leaf, field), leaf.index);
    }
  }
}

/// Leaf 0 names the first key, others those that followed.
Result<void> BundleReader::Impl::take_key(const StoredLeaf& leaf) {
  if (leaf.index > 0) return chain->add(leaf.index, leaf.json);
  const auto first = parse_vkey(text_at(leaf.json, "vkey"));
  if (!first) return first.error();
  chain.emplace(*first);
  return {};
}

BundleReader::BundleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleReader::~BundleReader() = default;

Result<std::unique_ptr<BundleReader>> BundleReader::open(const std::filesystem::path& path,
                                                         const VerifyOptions& options) {
  auto impl = std::make_unique<Impl>(path);
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    auto extracted = ExtractedArchive::extract(path);
    if (!extracted) return extracted.error();
    impl->extracted.emplace(std::move(*extracted));
    impl->folder = impl->extracted->folder();
  }
  if (!std::filesystem::exists(impl->folder / "manifest.json", error)) {
    return Error{Errc::not_found, "there is no bundle of evidence", path.string(),
                 "give what `verbatim export` made"};
  }
  auto report = verify_bundle(impl->folder, options);
  if (!report) return report.error();
  if (report->verdict != Verdict::valid) {
    std::string what = "the bundle is " + std::string(verdict_name(report->verdict));
    if (!report->problems.empty()) what += ": " + report->problems.front().detail;
    return Error{Errc::tampered, what, path.string(), "`verbatim verify` says all that is wrong"};
  }
  impl->verified = std::move(*report);
  if (auto indexed = impl->index_leaves(); !indexed) return indexed.error();
  return std::unique_ptr<BundleReader>(new BundleReader(std::move(impl)));
}

const VerifyReport& BundleReader::verified() const { return impl_->verified; }
std::string BundleReader::origin() const { return impl_->verified.origin; }
std::string BundleReader::vkey() const { return impl_->verified.vkey; }
Result<std::string> BundleReader::checkpoint() { return impl_->note; }

Result<KeyChain> BundleReader::keys() {
  if (!impl_->chain) return Error{Errc::not_found, "the bundle is of an empty log", "", ""};
  return *impl_->chain;
}

Result<StoredLeaf> BundleReader::leaf(std::uint64_t index) { return impl_->leaf(index); }

Result<std::vector<StoredLeaf>> BundleReader::leaves_of(const Uuid& id) {
  std::vector<StoredLeaf> leaves;
  for (auto at = std::lower_bound(impl_->by_id.begin(), impl_->by_id.end(),
                                  std::pair(id, std::uint64_t{0}));
       at != impl_->by_id.end() && at->first == id; ++at) {
    auto leaf = impl_->leaf(at->second);
    if (!leaf) return leaf.error();
    leaves.push_back(std::move(*leaf));
  }
  if (leaves.empty()) {
    return Error{Errc::not_found, "there is no record " + id.str(), impl_->folder.string(), ""};
  }
  return leaves;
}

Result<std::vector<RecordSummary>> BundleReader::list(const RecordFilter& filter) {
  std::vector<RecordSummary> all;
  std::map<Uuid, std::size_t> open;  // requests, by their place in `all`
  const auto read = impl_->each_leaf([&](const StoredLeaf& leaf) {
    const auto head = read_leaf_head(leaf.json);
    if (!head) return;
    RecordSummary record = summarize(leaf.index, *head, leaf.json);
    if (record.type == "request") {
      record.status = "open";
      open[record.id] = all.size();
    } else if (const auto asked = open.find(record.id);
               record.type == "response" && asked != open.end()) {
      RecordSummary& request = all[asked->second];
      request.response_index = leaf.index;
      request.status = record.status;
      request.cache = record.cache;
      open.erase(asked);
    }
    all.push_back(std::move(record));
  });
  if (!read) return read.error();
  std::vector<RecordSummary> records;
  for (RecordSummary& record : all) {
    if (fits(filter, record)) records.push_back(std::move(record));
  }
  std::sort(records.begin(), records.end(), [](const RecordSummary& a, const RecordSummary& b) {
    return std::pair(a.time_us, a.index) < std::pair(b.time_us, b.index);
  });
  if (filter.newest_first) std::reverse(records.begin(), records.end());
  if (filter.limit != 0 && records.size() > filter.limit) records.resize(filter.limit);
  return records;
}

Result<OpenedContent> BundleReader::content(std::uint64_t index, std::string_view field) {
  const auto stored = impl_->leaf(index);
  if (!stored) return stored.error();
  const auto head = read_leaf_head(stored->json);
  if (!head) return head.error();
  const auto reference = std::find_if(head->contents.begin(), head->contents.end(),
                                      [&](const auto& r) { return r.field == field; });
  const std::string where = "leaf " + std::to_string(index) + ", " + std::string(field);
  if (reference == head->contents.end()) {
    return Error{Errc::not_found, "the leaf has no such content", where, ""};
  }
  const auto erased = impl_->erasures.find(std::pair(index, reference->field));
  if (erased != impl_->erasures.end()) return erased_error(index, field, erased->second);

  const std::string name = "contents/" + std::to_string(index) + "/" + reference->field;
  auto bytes = read_file(impl_->folder / name, kContentBytesMax);
  if (is_absent(impl_->folder / name)) {
    return Error{Errc::unavailable, "the bundle does not disclose the content", where,
                 "ask for an export with it"};
  }
  if (!bytes) return bytes.error();
  const auto hex = read_file(impl_->folder / (name + ".salt"), 128);
  const auto salt = from_hex(hex ? std::string_view(*hex).substr(0, 64) : "");
  UnsealedContent content;
  if (!salt || salt->size() != content.salt.size()) return not_as_verified(name, impl_->folder);
  std::copy(salt->begin(), salt->end(), content.salt.begin());
  content.bytes = std::move(*bytes);
  if (!matches(*reference, content)) return not_as_verified(name, impl_->folder);
  return OpenedContent{reference->field, content.salt, std::move(content.bytes)};
}

}  // namespace verbatim::audit
