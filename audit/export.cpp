#include "audit/export.hpp"

#include "audit/archive.hpp"
#include "audit/checkpoint.hpp"
#include "audit/content.hpp"
#include "audit/dsse.hpp"
#include "audit/leaf.hpp"
#include "audit/prune.hpp"
#include "audit/signer.hpp"
#include "audit/tiles.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace verbatim::audit {

namespace {

/// Adds files to a bundle and remembers their digests.
class EvidenceWriter {
 public:
  EvidenceWriter(LogReader& reader, const ExportOptions& options, BundleSink& sink)
      : reader_(reader), options_(options), sink_(sink) {}

  Result<ExportSummary> write() {
    // The checkpoint first: whatever is appended from here on is not in this bundle.
    auto note = options_.note.empty() ? reader_.checkpoint() : Result<std::string>(options_.note);
    if (!note) return note.error();
    const auto keys = reader_.keys();
    if (!keys) return keys.error();
    const auto head = open_checkpoint(*note, *keys);
    if (!head) return head.error();
    head_ = *head;
    key_ = keys->at(head_.size).front();
    // Opened at once: it may be retired while the rest is written.
    auto signing = load_log_key(reader_.data_dir(), key_);
    if (!signing) return signing.error();
    signing_ = std::move(*signing);
    summary_.size = head_.size;
    auto pruned = read_pruned(reader_.data_dir());
    if (!pruned) return pruned.error();
    pruned_ = std::move(*pruned);
    if (pruned_.leaf && *pruned_.leaf >= head_.size) {
      return Error{Errc::unavailable, "the log was pruned since this checkpoint was signed",
                   "size " + std::to_string(head_.size),
                   "have a newer checkpoint cosigned (verbatim witness ask)"};
    }
    if (auto done = add("checkpoint", *note); !done) return done.error();
    if (auto done = add_tree(); !done) return done.error();
    if (auto done = add_kept(); !done) return done.error();
    if (auto done = add_contents(); !done) return done.error();
    for (const auto& [name, bytes] : options_.extra_files) {
      if (!is_bundle_path(name) || files_.contains(name)) {
        return Error{Errc::invalid_input, "not a name for a file in a bundle", name, ""};
      }
      if (auto done = add(name, bytes); !done) return done.error();
    }
    if (auto done = add_manifest(); !done) return done.error();
    if (auto done = sink_.finish(); !done) return done.error();
    return summary_;
  }

 private:
  Result<void> add(const std::string& name, std::string_view bytes);
  Result<void> add_tree();
  Result<void> add_kept();
  Result<void> add_contents();
  Result<void> add_contents_of(std::uint64_t index);
  Result<void> add_manifest();
  [[nodiscard]] Result<std::set<std::uint64_t>> chosen_leaves();
  [[nodiscard]] Json selection() const;

  LogReader& reader_;
  const ExportOptions& options_;
  BundleSink& sink_;
  Checkpoint head_;
  VerifierKey key_;  // that signed it
  std::shared_ptr<LogKey> signing_;
  Pruned pruned_;
  std::map<std::string, std::pair<Digest, std::uint64_t>> files_;  // name -> digest, bytes
  ExportSummary summary_;
};

Result<void> EvidenceWriter::add(const std::string& name, std::string_view bytes) {
  if (auto added = sink_.add(name, bytes); !added) return added;
  files_.emplace(name, std::pair(sha256(bytes), bytes.size()));
  ++summary_.files;
  summary_.bytes += bytes.size();
  return {};
}

Result<void> EvidenceWriter::add_tree() {
  for (const TileName& tile : tiles_of(head_.size)) {
    const auto hashes = reader_.tile(tile);
    if (!hashes) return hashes.error();
    if (auto done = add(tile_path(tile), *hashes); !done) return done;
    if (tile.level != 0 || tile.index * kTileWidth < pruned_.minimum_index) continue;
    const auto entries = reader_.entries(tile.index, tile.width);
    if (!entries) return entries.error();
    if (auto done = add(entries_path(tile.index, tile.width), *entries); !done) return done;
  }
  return {};
}

/// Leaves below the minimum index that stayed.
Result<void> EvidenceWriter::add_kept() {
  for (const std::uint64_t index : pruned_.kept) {
    const auto leaf = reader_.leaf(index);
    if (!leaf) return leaf.error();
    if (auto done = add("kept/" + std::to_string(index), leaf->bytes); !done) return done;
  }
  return {};
}

Result<std::set<std::uint64_t>> EvidenceWriter::chosen_leaves() {
  std::set<std::uint64_t> leaves;
  if (!options_.ids.empty()) {
    for (const Uuid& id : options_.ids) {
      const auto found = leaves_with_id(reader_.data_dir(), id);
      if (!found) return found.error();
      leaves.insert(found->begin(), found->end());
      ++summary_.records;
    }
  } else {
    const auto records = reader_.list(options_.filter);
    if (!records) return records.error();
    for (const RecordSummary& record : *records) {
      if (pruned_.covers(record.index)) continue;
      leaves.insert(record.index);
      if (record.response_index) leaves.insert(*record.response_index);
      if (record.type == "request" && record.index < head_.size) ++summary_.records;
    }
  }
  leaves.erase(leaves.lower_bound(head_.size), leaves.end());
  return leaves;
}

Result<void> EvidenceWriter::add_contents() {
  const auto leaves = chosen_leaves();
  if (!leaves) return leaves.error();
  if (options_.contents == ContentChoice::none) return {};
  summary_.fields_missing = options_.fields;
  for (const std::uint64_t index : *leaves) {
    if (auto done = add_contents_of(index); !done) return done;
  }
  return {};
}

Result<void> EvidenceWriter::add_contents_of(std::uint64_t index) {
  const auto leaf = reader_.leaf(index);
  if (!leaf && leaf.error().code == Errc::erased) {
    ++summary_.pruned;
    return {};
  }
  if (!leaf) return leaf.error();
  const auto head = read_leaf_head(leaf->json);
  if (!head) return head.error();
  for (const ContentReference& reference : head->contents) {
    const auto& fields = options_.fields;
    if (options_.contents == ContentChoice::selected &&
        std::find(fields.begin(), fields.end(), reference.field) == fields.end()) {
      continue;
    }
    std::erase(summary_.fields_missing, reference.field);
    const auto content = reader_.content(index, reference.field);
    if (!content && content.error().code == Errc::erased) {
      ++summary_.erased;
      continue;
    }
    if (!content) return content.error();
    const std::string name = "contents/" + std::to_string(index) + "/" + reference.field;
    if (auto done = add(name, content->bytes); !done) return done;
    if (auto done = add(name + ".salt", to_hex(content->salt) + "\n"); !done) return done;
    ++summary_.contents;
  }
  return {};
}

Json EvidenceWriter::selection() const {
  static constexpr const char* kChoices[] = {"all", "none", "selected"};
  Json json = {{"contents", kChoices[static_cast<int>(options_.contents)]}};
  if (options_.contents == ContentChoice::selected) json["fields"] = options_.fields;
  for (const Uuid& id : options_.ids) json["ids"].push_back(id.str());
  const RecordFilter& filter = options_.filter;
  if (filter.since_us) json["since"] = format_rfc3339(*filter.since_us);
  if (filter.until_us) json["until"] = format_rfc3339(*filter.until_us);
  if (!filter.model.empty()) json["model"] = filter.model;
  if (!filter.status.empty()) json["status"] = filter.status;
  if (filter.limit != 0) json["limit"] = filter.limit;
  return json;
}

Result<void> EvidenceWriter::add_manifest() {
  Json files = Json::array();
  for (const auto& [name, file] : files_) {
    files.push_back({{"name", name}, {"sha256", file.first.hex()}, {"bytes", file.second}});
  }
  Json members = {{"format", pruned_.leaf ? "verbatim-evidence/2" : "verbatim-evidence/1"},
                  {"origin", head_.origin},
                  {"vkey", key_.str()},
                  {"size", head_.size},
                  {"root", head_.root.hex()},
                  {"records", summary_.records},
                  {"selection", selection()},
                  {"files", std::move(files)}};
  if (pruned_.leaf) members["minimum_index"] = pruned_.minimum_index;
  const std::string manifest = canonical(members);
  const std::string statement = canonical(manifest_statement(manifest, members));
  if (auto done = sink_.add("manifest.json", manifest); !done) return done;
  const auto signed_statement = sign_statement(statement, *signing_);
  if (!signed_statement) return signed_statement.error();
  return sink_.add("manifest.sig.json", *signed_statement);
}

}  // namespace

Result<ExportSummary> export_evidence(LogReader& reader, const ExportOptions& options) {
  auto sink = BundleSink::open(options.out);
  if (!sink) return sink.error();
  return EvidenceWriter(reader, options, **sink).write();
}

}  // namespace verbatim::audit
