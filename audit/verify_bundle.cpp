#include "audit/archive.hpp"
#include "audit/content.hpp"
#include "audit/dsse.hpp"
#include "audit/erasure.hpp"
#include "audit/findings.hpp"
#include "audit/json_member.hpp"
#include "audit/merkle.hpp"
#include "audit/prune.hpp"
#include "audit/strict_json.hpp"
#include "audit/tiles.hpp"
#include "audit/verify_leaf.hpp"
#include "audit/verify_log.hpp"
#include "audit/verify_timestamp.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::audit {

namespace {

constexpr std::uint64_t kManifestBytesMax = 512u << 20;
constexpr std::uint64_t kFileBytesMax = 1u << 30;
constexpr std::uint64_t kEntriesBytesMax = kTileWidth * (kLeafBytesMax + 2);

/// The hashes of the tile at the right edge of each level, as they fill up.
class TileCheck {
 public:
  using Compare = std::function<void(const TileName& name, std::string_view hashes)>;

  void add(const Digest& leaf, const Compare& compare) { add(0, leaf, compare); }
  /// The partial tiles.
  void finish(const Compare& compare) const {
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const Level& at = levels_[level];
      if (at.width > 0) compare({static_cast<int>(level), at.full, at.width}, at.hashes);
    }
  }

 private:
  struct Level {
    std::uint64_t full = 0, width = 0;
    std::string hashes;
    CompactRange tree;  // of the hashes in this tile
  };

  void add(std::size_t level, const Digest& hash, const Compare& compare) {
    if (levels_.size() == level) levels_.emplace_back();
    Level& at = levels_[level];
    at.hashes += as_text(hash.view());
    // Its entries are subtrees already: appended as they are, 256 of them make the subtree above.
    at.tree.append(hash, [](const Digest&) {});
    if (++at.width < kTileWidth) return;
    compare({static_cast<int>(level), at.full, kTileWidth}, at.hashes);
    const Digest root = at.tree.root();
    const std::uint64_t full = at.full + 1;
    at = Level();
    at.full = full;
    add(level + 1, root, compare);
  }

  std::vector<Level> levels_;
};

class BundleVerifier {
 public:
  BundleVerifier(std::filesystem::path folder, const VerifyOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  Result<VerifyReport> run();

 private:
  Result<void> read_manifest();
  void check_manifest_signature();
  void check_files();
  void read_kept();
  void read_keys();
  void read_ahead(std::uint64_t index, std::string_view leaf);
  void announce_timestamps();
  Result<void> add_key(std::uint64_t index, std::string_view leaf);
  Result<void> check_given_key();
  Result<void> check_head();
  void check_tree();
  bool check_pruned_tile(std::uint64_t from);
  bool check_entries(std::uint64_t from, std::uint64_t width);
  void add_to_tree(const Digest& hash);
  void check_prune();
  void check_leaf(std::uint64_t index, std::string_view bytes);
  void check_erasure(std::uint64_t index, const Json& leaf);
  bool was_there(std::uint64_t leaf, const std::string& field);
  [[nodiscard]] bool is_pruned(std::uint64_t leaf) const {
    return leaf < minimum_index_ && !kept_.contains(leaf);
  }
  void check_content(std::uint64_t index, const ContentReference& reference);
  void compare_tile(const TileName& name, std::string_view hashes);
  VerifyReport report();

  std::filesystem::path folder_;
  const VerifyOptions& options_;
  std::string manifest_bytes_;
  Json manifest_;
  VerifierKey key_;        // that the manifest names
  KeyChain chain_ = key_;  // of the keys that the leaves name
  std::string note_;
  std::uint64_t minimum_index_ = 0;            // that the manifest names, until a leaf says it too
  std::map<std::uint64_t, std::string> kept_;  // leaves below it that are here
  Pruned pruned_;                              // what the newest `prune` leaf says
  std::uint64_t gone_ = 0;
  Result<void> keys_fit_;
  std::map<std::uint64_t, Json> timestamp_leaves_;
  TimestampCheck timestamps_{std::nullopt};
  std::optional<Checkpoint> head_;
  CompactRange tree_;
  TileCheck tiles_;
  LeafCheck leaves_;
  std::map<Uuid, std::uint64_t> first_by_id_;
  using Content = std::pair<std::uint64_t, std::uint64_t>;  // leaf, and number of the field
  std::map<std::string, std::uint64_t> fields_;             // name -> number
  std::vector<Content> committed_;                          // in order
  std::set<Content> gone_contents_;
  std::set<std::string> tile_files_;  // that the manifest lists, and the tree has not named yet
  HeadCheck heads_;
  Findings findings_;
  std::uint64_t checked_leaves_ = 0, checked_contents_ = 0, erased_ = 0;
  std::uint64_t absent_ = 0;         // contents that leaves commit to, and that are not here
  std::uint64_t content_files_ = 0;  // listed under contents/: two for each content
  std::uint64_t content_files_named_ = 0;
};

Result<VerifyReport> BundleVerifier::run() {
  auto trust = trust_of(options_);
  if (!trust) return trust.error();
  timestamps_ = TimestampCheck(std::move(*trust));
  if (auto done = read_manifest(); !done) return done.error();
  check_manifest_signature();
  check_files();
  read_kept();
  read_keys();
  if (auto done = check_given_key(); !done) return done.error();
  if (auto done = check_head(); !done) return done.error();
  announce_timestamps();
  if (head_) check_tree();
  timestamps_.finish(findings_);
  return report();
}

Result<void> BundleVerifier::read_manifest() {
  auto bytes = read_file(folder_ / "manifest.json", kManifestBytesMax);
  if (!bytes) return bytes.error();
  const auto json = parse_json(*bytes);
  const std::string where = (folder_ / "manifest.json").string();
  if (!json || !json->is_object()) {
    return Error{Errc::invalid_input, "the manifest is not a JSON object", where, ""};
  }
  const std::string format = text_at(*json, "format");
  if (format != "verbatim-evidence/1" && format != "verbatim-evidence/2") {
    const bool ours = format.starts_with("verbatim-evidence/");
    return Error{ours ? Errc::newer_version : Errc::invalid_input,
                 "the bundle's format is '" + format.substr(0, 64) +
                     "', this verbatim knows verbatim-evidence/1 and 2",
                 where, ""};
  }
  manifest_bytes_ = std::move(*bytes);
  manifest_ = *json;
  const auto one_form = canonicalize(manifest_bytes_, Numbers::ecmascript);
  if (!one_form || *one_form != manifest_bytes_ || !parse_strict_json(manifest_bytes_)) {
    findings_.tampered("manifest", "the manifest is not canonical JSON of whole numbers");
  }
  const Json* const records = member(manifest_, "records");
  const Json* const selection = member(manifest_, "selection");
  if (records == nullptr || !records->is_number_unsigned() || selection == nullptr ||
      !selection->is_object()) {
    findings_.tampered("manifest", "the manifest does not say how many records it has, or which");
  }
  const Json* const minimum = member(manifest_, "minimum_index");
  if (minimum != nullptr && minimum->is_number_unsigned()) {
    minimum_index_ = minimum->get<std::uint64_t>();
  }
  if (minimum_index_ % kTileWidth != 0) {
    findings_.tampered("prune", "the manifest's minimum index is no whole number of tiles");
    minimum_index_ = 0;
  }
  const std::string named = text_at(manifest_, "vkey");
  const auto key = parse_vkey(named);
  if (!key) {
    Error error = key.error();
    error.where = where;
    return error;
  }
  key_ = *key;
  return {};
}

void BundleVerifier::check_manifest_signature() {
  const auto bundle = read_file(folder_ / "manifest.sig.json", 1u << 20);
  if (!bundle) {
    findings_.tampered("manifest_signature", "manifest.sig.json is missing");
    return;
  }
  const auto statement = open_statement(*bundle, key_);
  if (!statement) {
    findings_.tampered("manifest_signature", statement.error().what);
    return;
  }
  const auto json = parse_strict_json(*statement);
  if (!json || *json != manifest_statement(manifest_bytes_, manifest_)) {
    findings_.tampered("manifest_signature", "the signature is for another manifest");
  }
}

void BundleVerifier::check_files() {
  std::set<std::string> listed = {"manifest.json", "manifest.sig.json"};
  const auto files = manifest_.find("files");
  if (files == manifest_.end() || !files->is_array()) {
    findings_.tampered("manifest_files", "the manifest lists no files");
    return;
  }
  std::string before;
  for (const Json& file : *files) {
    const std::string name = text_at(file, "name");
    const bool in_order = before < name;
    before = name;
    if (!is_bundle_path(name) || !in_order || !listed.insert(name).second) {
      findings_.tampered("manifest_files", "the manifest lists a strange name, or not in order: " +
                                               name.substr(0, 64));
      continue;
    }
    if (name.starts_with("contents/")) ++content_files_;
    if (name.starts_with("tile/")) tile_files_.insert(name);
    const auto bytes = read_file(folder_ / name, kFileBytesMax);
    if (!bytes) {
      findings_.tampered("file_missing", name + " is missing or cannot be read");
    } else if (const Json* const length = member(file, "bytes");
               length == nullptr || !length->is_number_unsigned() || *length != bytes->size() ||
               sha256(*bytes).hex() != text_at(file, "sha256")) {
      findings_.tampered("file_hash", name + " is not the file that the manifest lists");
    }
  }
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(folder_, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(error) && !entry->is_symlink(error)) continue;
    const std::string name = entry->path().lexically_relative(folder_).string();
    if (entry->is_symlink(error) || !entry->is_regular_file(error)) {
      findings_.tampered("file_type", name + " is not a plain file");
    } else if (!listed.contains(name)) {
      findings_.tampered("file_extra", name + " is not in the manifest");
    }
  }
}

/// So do the time stamps: what they are of is compared with the tree as it grows.
void BundleVerifier::announce_timestamps() {
  for (const auto& [index, leaf] : timestamp_leaves_) {
    timestamps_.announce(index, leaf, chain_, heads_, findings_);
  }
}

/// Leaves of before the minimum index, each in a file of its own.
void BundleVerifier::read_kept() {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder_ / "kept", error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(error) && !entry->is_symlink(error)) continue;
    const std::string name = entry->path().lexically_relative(folder_ / "kept").string();
    std::uint64_t index = 0;
    const auto [last, wrong] = std::from_chars(name.data(), name.data() + name.size(), index);
    auto leaf = read_file(entry->path(), kLeafBytesMax);
    if (wrong != std::errc() || name != std::to_string(index) || index >= minimum_index_ || !leaf) {
      findings_.tampered("kept", "kept/" + name + " is no leaf below the minimum index");
    } else {
      kept_.emplace(index, std::move(*leaf));
    }
  }
}

/// The keys come from leaves that are not checked yet: all of them are, later, or the bundle is not valid.
void BundleVerifier::read_keys() {
  const auto stored = read_file(folder_ / "checkpoint", kNoteBytesMax);
  note_ = stored ? *stored : "";
  const auto note = parse_note(note_);
  const auto head = note ? parse_checkpoint_text(note->text) : Result<Checkpoint>(note.error());
  chain_ = key_;
  for (const auto& [index, leaf] : kept_) read_ahead(index, leaf);
  for (std::uint64_t index = minimum_index_; head && keys_fit_ && index < head->size;) {
    const std::uint64_t width = std::min(kTileWidth, head->size - index);
    const auto bundle =
        read_file(folder_ / entries_path(index / kTileWidth, width), kEntriesBytesMax);
    const auto leaves =
        bundle ? split_entries(*bundle) : Result<std::vector<std::string_view>>(bundle.error());
    if (!leaves) return;  // check_tree() says so
    for (const std::string_view leaf : *leaves) read_ahead(index++, leaf);
  }
  if (keys_fit_ && chain_.newest() == key_) return;
  findings_.tampered("key_chain",
                     keys_fit_ ? "the manifest names another key than the leaves: " + key_.str()
                               : keys_fit_.error().what);
  chain_ = key_;
}

/// What has to be known before the tree is read.
void BundleVerifier::read_ahead(std::uint64_t index, std::string_view leaf) {
  if (keys_fit_ && (index == 0 || leaf.find(R"("type":"key_r)") != std::string_view::npos)) {
    keys_fit_ = add_key(index, leaf);
  }
  if (leaf.find(R"("type":"timestamp")") == std::string_view::npos) return;
  const auto json = parse_json(leaf);
  if (json && text_at(*json, "type") == "timestamp") timestamp_leaves_.emplace(index, *json);
}

/// Leaf 0 names the first key, others those that followed.
Result<void> BundleVerifier::add_key(std::uint64_t index, std::string_view leaf) {
  const auto json = parse_json(leaf);
  if (!json) return {};  // check_tree() says so
  if (index > 0) return chain_.add(index, *json);
  const auto first = parse_vkey(text_at(*json, "vkey"));
  if (text_at(*json, "type") != "log_created" || !first) {
    return Error{Errc::tampered, "leaf 0 does not say how the log was created", "", ""};
  }
  chain_ = *first;
  return {};
}

Result<void> BundleVerifier::check_given_key() {
  if (options_.vkey.empty()) return {};
  const auto given = parse_vkey(options_.vkey);
  if (!given) {
    Error error = given.error();
    error.where = "the given key";
    return error;
  }
  // What follows is checked under the bundle's own keys: with another, all of it would be one fault said many times.
  if (!chain_.contains(*given)) {
    findings_.tampered("key",
                       "the bundle is signed by another key than the one given: " + key_.str() +
                           "; if the log's key was changed since, give the one of that time");
  }
  return {};
}

Result<void> BundleVerifier::check_head() {
  if (note_.empty()) {
    findings_.tampered("checkpoint_missing", "there is no checkpoint");
    return {};
  }
  auto head = open_checkpoint(note_, chain_);
  if (!head) {
    const bool other_key = head.error().code == Errc::not_found;
    findings_.tampered(other_key ? "checkpoint_key" : "checkpoint_signature", head.error().what);
    return {};
  }
  if (head->origin != chain_.origin()) {
    findings_.tampered("checkpoint_origin", "the checkpoint is of another log, " + head->origin);
  }
  const auto size = manifest_.find("size");
  if (text_at(manifest_, "origin") != head->origin || size == manifest_.end() ||
      *size != head->size || text_at(manifest_, "root") != head->root.hex()) {
    findings_.tampered("manifest_head", "the manifest is about another tree than the checkpoint");
  }
  if (head->size == 0) {
    findings_.tampered("first_leaf", "the tree is empty: no leaf says how the log was created");
  }
  head_ = std::move(*head);
  if (!options_.policy.empty()) {
    if (auto done = check_policy(options_.policy, note_, chain_, findings_); !done) return done;
  }
  if (options_.checkpoint.empty()) return {};
  return expect_given(options_.checkpoint, chain_, head_->size, heads_, findings_);
}

void BundleVerifier::check_tree() {
  heads_.reached(0, [] { return empty_root(); });
  for (std::uint64_t from = 0; from < head_->size; from += kTileWidth) {
    const std::uint64_t width = std::min(kTileWidth, head_->size - from);
    const bool read = from < minimum_index_ && width == kTileWidth ? check_pruned_tile(from)
                                                                   : check_entries(from, width);
    // Without the leaves the tree cannot be computed any further.
    if (!read) return;
    if (options_.progress) options_.progress(tree_.size(), head_->size);
  }
  tiles_.finish(
      [this](const TileName& name, std::string_view hashes) { compare_tile(name, hashes); });
  check_prune();
  for (const std::string& name : tile_files_) {
    findings_.tampered("file_extra", name + " is no tile of this tree");
  }
  if (options_.contents && content_files_ != content_files_named_) {
    findings_.tampered("content_extra", "there are contents that no leaf commits to");
  }
  const bool newest_matches = tree_.root() == head_->root;
  if (!newest_matches) {
    findings_.tampered("checkpoint_root", "the leaves do not hash to the checkpoint's root");
  }
  heads_.conclude(newest_matches, findings_);
}

void BundleVerifier::add_to_tree(const Digest& hash) {
  tiles_.add(hash,
             [this](const TileName& name, std::string_view hashes) { compare_tile(name, hashes); });
  tree_.append(hash, [](const Digest&) {});
  heads_.reached(tree_.size(), [this] { return tree_.root(); });
}

bool BundleVerifier::check_entries(std::uint64_t from, std::uint64_t width) {
  const std::string name = entries_path(from / kTileWidth, width);
  tile_files_.erase(name);
  const auto bundle = read_file(folder_ / name, kEntriesBytesMax);
  const auto leaves =
      bundle ? split_entries(*bundle) : Result<std::vector<std::string_view>>(bundle.error());
  if (!leaves || leaves->size() != width) {
    findings_.tampered("entries", name + " is missing, or does not hold its leaves", from);
    return false;
  }
  for (const std::string_view leaf : *leaves) {
    check_leaf(tree_.size(), leaf);
    add_to_tree(leaf_hash(as_bytes(leaf)));
  }
  return true;
}

/// Of leaves that were pruned the hashes are here, and they lead to the root or not.
bool BundleVerifier::check_pruned_tile(std::uint64_t from) {
  const std::string name = tile_path({0, from / kTileWidth, kTileWidth});
  const auto hashes = read_file(folder_ / name, kTileWidth * 32);
  if (!hashes || hashes->size() != kTileWidth * 32) {
    findings_.tampered("tile", name + " is missing, or does not hold the tree's hashes");
    return false;
  }
  for (std::uint64_t i = 0; i < kTileWidth; ++i) {
    Digest hash;
    std::copy_n(as_bytes(*hashes).begin() + static_cast<std::ptrdiff_t>(i * 32), 32,
                hash.bytes.begin());
    const auto kept = kept_.find(from + i);
    if (kept == kept_.end()) {
      leaves_.pruned(from + i);
      ++gone_;
    } else {
      if (leaf_hash(as_bytes(kept->second)) != hash) {
        findings_.tampered(
            "kept", "kept/" + std::to_string(from + i) + " is not the leaf of its tile", from + i);
      }
      check_leaf(from + i, kept->second);
    }
    add_to_tree(hash);
  }
  return true;
}

/// What is not here must be what the newest `prune` leaf says.
void BundleVerifier::check_prune() {
  std::set<std::uint64_t> kept;
  for (const auto& [index, leaf] : kept_) kept.insert(index);
  const bool was_pruned = pruned_.leaf.has_value();
  if ((text_at(manifest_, "format") == "verbatim-evidence/2") != was_pruned ||
      (member(manifest_, "minimum_index") != nullptr) != was_pruned) {
    findings_.tampered("prune", "the manifest's format is not that of a log that was" +
                                    std::string(was_pruned ? "" : " not") + " pruned");
  }
  if (pruned_.minimum_index == minimum_index_ && pruned_.kept == kept) return;
  findings_.tampered("prune",
                     "the leaves that are not here are not those that a leaf says were "
                     "pruned");
}

void BundleVerifier::compare_tile(const TileName& name, std::string_view hashes) {
  const std::string path = tile_path(name);
  tile_files_.erase(path);
  const auto bytes = read_file(folder_ / path, kTileWidth * 32);
  if (!bytes || *bytes != hashes) {
    findings_.tampered("tile", path + " is missing, or does not hold the tree's hashes");
  }
}

void BundleVerifier::check_leaf(std::uint64_t index, std::string_view bytes) {
  const auto leaf = leaves_.add(index, bytes, findings_);
  ++checked_leaves_;
  if (!leaf) return;
  const auto [first, anew] = first_by_id_.emplace(leaf->head.id, index);
  if (!anew) check_shared_id(first->second, index, *leaf, findings_);
  if (leaf->head.type == "erasure") check_erasure(index, leaf->json);
  const auto first_of_leaf = committed_.insert(committed_.end(), leaf->head.contents.size(), {});
  std::transform(leaf->head.contents.begin(), leaf->head.contents.end(), first_of_leaf,
                 [&](const ContentReference& each) {
                   return std::pair(index,
                                    fields_.emplace(each.field, fields_.size()).first->second);
                 });
  std::sort(first_of_leaf, committed_.end());
  if (leaf->head.type == "prune") {
    auto pruned = read_prune(index, leaf->json);
    if (!pruned) findings_.tampered("prune", pruned.error().what, index);
    if (pruned) pruned_ = std::move(*pruned);
  }
  if (leaf->head.type == "timestamp") timestamps_.met(index, findings_);
  if (!options_.contents) return;
  for (const ContentReference& reference : leaf->head.contents) check_content(index, reference);
}

/// What the log says is gone cannot be disclosed by one who no longer has it.
void BundleVerifier::check_erasure(std::uint64_t index, const Json& leaf) {
  const std::string name = "leaf " + std::to_string(index);
  const auto erased = read_erased(leaf);
  if (!erased) {
    findings_.tampered("erasure", name + ": " + erased.error().what, index);
    return;
  }
  std::error_code error;
  for (const ErasedContents& contents : *erased) {
    for (const std::string& field : contents.fields) {
      if (!is_pruned(contents.leaf)) ++erased_;
      if (!was_there(contents.leaf, field)) {
        findings_.tampered("erasure",
                           name + " says that " + field + " of leaf " +
                               std::to_string(contents.leaf) +
                               " was erased, which never was there, or was erased before",
                           index);
      }
      const std::string file = "contents/" + std::to_string(contents.leaf) + "/" + field;
      if (!std::filesystem::is_regular_file(folder_ / file, error)) continue;
      findings_.tampered("erasure", name + " says that it was erased, but here is " + file, index);
    }
  }
}

/// Whether a leaf so far committed to such a content, which no erasure has named yet. Of pruned leaves nobody knows.
bool BundleVerifier::was_there(std::uint64_t leaf, const std::string& field) {
  if (is_pruned(leaf)) return true;
  const auto number = fields_.find(field);
  if (number == fields_.end()) return false;
  const std::pair content(leaf, number->second);
  return std::binary_search(committed_.begin(), committed_.end(), content) &&
         gone_contents_.insert(content).second;
}

void BundleVerifier::check_content(std::uint64_t index, const ContentReference& reference) {
  const std::string name = "contents/" + std::to_string(index) + "/" + reference.field;
  std::error_code error;
  // Erased or not disclosed: the commitment stands alone.
  if (!std::filesystem::is_regular_file(folder_ / name, error)) {
    ++absent_;
    return;
  }
  content_files_named_ += 2;
  UnsealedContent content;
  auto bytes = read_file(folder_ / name, kFileBytesMax);
  const auto hex = read_file(folder_ / (name + ".salt"), 128);
  const auto salt = from_hex(hex ? std::string_view(*hex).substr(0, 64) : "");
  if (!bytes || !salt || salt->size() != content.salt.size() || *hex != to_hex(*salt) + "\n") {
    findings_.tampered("content_salt", name + ": the content or its salt cannot be read", index);
    return;
  }
  std::copy(salt->begin(), salt->end(), content.salt.begin());
  content.bytes = std::move(*bytes);
  if (!matches(reference, content)) {
    findings_.tampered("content_commitment", name + " is not what the leaf committed to", index);
    return;
  }
  ++checked_contents_;
}

VerifyReport BundleVerifier::report() {
  VerifyReport report;
  report.verdict = findings_.verdict();
  report.problems = findings_.take_problems();
  report.size = head_ ? head_->size : 0;
  report.root = tree_.root();
  report.origin = key_.name;
  report.vkey = key_.str();
  for (const VerifierKey& key : chain_.all()) report.keys.push_back(key.str());
  report.key_was_given = !options_.vkey.empty();
  report.checked_leaves = checked_leaves_;
  report.checked_contents = checked_contents_;
  report.erased = erased_;
  report.not_disclosed = absent_ - std::min<std::uint64_t>(absent_, gone_contents_.size());
  report.timestamps = timestamps_.summary();
  report.minimum_index = minimum_index_;
  report.pruned = gone_;
  return report;
}

}  // namespace

Result<VerifyReport> verify_bundle(const std::filesystem::path& folder,
                                   const VerifyOptions& options) {
  return BundleVerifier(folder, options).run();
}

}  // namespace verbatim::audit
