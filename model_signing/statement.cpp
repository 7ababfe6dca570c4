#include "model_signing/statement.hpp"

#include "audit/json_member.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace verbatim::model_signing {

namespace {

using audit::member;
using audit::text_at;

constexpr const char* kStatementType = "https://in-toto.io/Statement/v1";
constexpr const char* kPredicateType = "https://model_signing/signature/v1.0";
constexpr const char* kPredicateTypeBefore = "https://model_signing/Digests/v0.1";
constexpr double kSizeMax = 9007199254740992.0;  // 2^53

Problem wrong(std::string detail) { return {"statement", std::move(detail)}; }

std::size_t digest_digits(Hash hash) { return hash == Hash::sha256 ? 64 : 128; }

bool is_lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// A decimal number as it is written by everyone: no sign, no leading zero.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return value;
}

/// FILE:START:END. The file's name may hold colons itself.
std::optional<Resource> parse_shard(std::string_view name) {
  const std::size_t last = name.rfind(':');
  if (last == std::string_view::npos || last == 0) return std::nullopt;
  const std::size_t first = name.rfind(':', last - 1);
  if (first == std::string_view::npos) return std::nullopt;
  const auto start = parse_number(name.substr(first + 1, last - first - 1));
  const auto end = parse_number(name.substr(last + 1));
  if (!start || !end) return std::nullopt;
  return Resource{std::string(name.substr(0, first)), "", *start, *end};
}

Checked<std::uint64_t> read_shard_size(const Json& serialization) {
  const Json* const size = member(serialization, "shard_size");
  // A number that passed through a double has a point: 8.0.
  const double value = size != nullptr && size->is_number() ? size->get<double>() : 0;
  if (!(value >= 1 && value <= kSizeMax) ||
      value != static_cast<double>(static_cast<std::uint64_t>(value)))
    return wrong("shard_size is no whole number from 1 to 2^53");
  return static_cast<std::uint64_t>(value);
}

/// Signers by shards also write the size into the name of the algorithm: "sha256-sharded-1000000000".
std::string plain_algorithm(std::string name, const Statement& statement) {
  const std::string suffix = "-sharded-" + std::to_string(statement.shard_size);
  if (statement.method == Method::shards && name.ends_with(suffix))
    name.resize(name.size() - suffix.size());
  return name;
}

Checked<void> read_ignore_paths(const Json& serialization, Statement& statement) {
  const Json* const paths = member(serialization, "ignore_paths");
  if (paths == nullptr) return {};
  if (!paths->is_array()) return wrong("ignore_paths is no list");
  for (const Json& path : *paths) {
    std::string name = path.is_string() ? path.get<std::string>() : "";
    if (name.size() > 1 && name.ends_with('/')) name.pop_back();
    if (!is_plain_name(name))
      return wrong("ignore_paths holds something else than a path in the model: " + path.dump());
    statement.ignore_paths.push_back(std::move(name));
  }
  return {};
}

Checked<void> read_serialization(const Json& predicate, Statement& statement) {
  const Json* const serialization = member(predicate, "serialization");
  if (serialization == nullptr) return wrong("the predicate has no serialization");
  const auto known = check_members(
      *serialization, "serialization",
      {"method", "hash_type", "shard_size", "allow_symlinks", "ignore_paths"}, "statement");
  if (!known) return known.error();
  const std::string method = text_at(*serialization, "method");
  if (method == "shards") {
    statement.method = Method::shards;
    const auto size = read_shard_size(*serialization);
    if (!size) return size.error();
    statement.shard_size = *size;
  } else if (method.starts_with("file-shard-")) {
    return Problem{"unsupported", "the method '" + method + "' of a draft of Model Signing"};
  } else if (method != "files") {
    return wrong("no serialization method 'files' or 'shards'");
  } else if (member(*serialization, "shard_size") != nullptr) {
    return wrong("a shard_size with the method 'files'");
  }
  const std::string hash = plain_algorithm(text_at(*serialization, "hash_type"), statement);
  if (hash == "blake3") return Problem{"unsupported", "digests by BLAKE3"};
  if (hash != "sha256" && hash != "blake2b") return wrong("no hash_type 'sha256' or 'blake2b'");
  statement.hash = hash == "sha256" ? Hash::sha256 : Hash::blake2b;
  const Json* const symlinks = member(*serialization, "allow_symlinks");
  if (symlinks == nullptr || !symlinks->is_boolean())
    return wrong("allow_symlinks is neither true nor false");
  statement.allow_symlinks = symlinks->get<bool>();
  return read_ignore_paths(*serialization, statement);
}

Checked<Resource> read_resource(const Json& json, const Statement& statement) {
  const Json* const named = member(json, "name");
  if (named == nullptr || !named->is_string()) return wrong("a resource without a name");
  const auto name = named->get<std::string>();
  const std::string algorithm = plain_algorithm(text_at(json, "algorithm"), statement);
  if (algorithm != hash_name(statement.hash))
    return wrong("the digest of " + name + " is of another algorithm than hash_type says");
  std::optional<Resource> resource =
      statement.method == Method::shards ? parse_shard(name) : Resource{name, "", 0, 0};
  if (!resource) return wrong("not the name of a shard, FILE:START:END: " + name);
  if (resource->file != kTheOnlyFile && !is_plain_name(resource->file))
    return wrong("not the name of a file in the model: " + name);
  resource->digest = text_at(json, "digest");
  if (resource->digest.size() != digest_digits(statement.hash) || !is_lower_hex(resource->digest))
    return wrong("no digest of " + name);
  return std::move(*resource);
}

/// One resource a file; of shards those that cut it at every multiple of their size. An empty file has one of no bytes.
Checked<void> check_coverage(const Statement& statement) {
  std::map<std::string_view, std::vector<std::pair<std::uint64_t, std::uint64_t>>> files;
  for (const Resource& resource : statement.resources)
    files[resource.file].emplace_back(resource.start, resource.end);
  if (files.size() > 1 && files.contains(kTheOnlyFile))
    return wrong("not the name of a file in the model: .");
  for (auto& [file, parts] : files) {
    if (statement.method == Method::files) {
      if (parts.size() > 1) return wrong("the name is there twice: " + std::string(file));
      continue;
    }
    std::sort(parts.begin(), parts.end());
    std::uint64_t at = 0;
    bool whole = true;  // every shard but the last is
    for (const auto& [start, end] : parts) {
      const bool fits = start == at && end >= start && end - start <= statement.shard_size &&
                        (end > start || parts.size() == 1);
      if (!fits || !whole) return wrong("the shards do not cut the file: " + std::string(file));
      whole = end - start == statement.shard_size;
      at = end;
    }
  }
  return {};
}

Checked<void> read_resources(const Json& predicate, Statement& statement) {
  const Json* const resources = member(predicate, "resources");
  if (resources == nullptr || !resources->is_array() || resources->empty())
    return wrong("the predicate has no resources");
  for (const Json& json : *resources) {
    auto resource = read_resource(json, statement);
    if (!resource) return resource.error();
    statement.resources.push_back(std::move(*resource));
  }
  return check_coverage(statement);
}

/// The model's name and the root that the statement says.
Checked<std::pair<std::string, std::string>> read_subject(const Json& statement) {
  const Json* const subjects = member(statement, "subject");
  if (subjects == nullptr || !subjects->is_array() || subjects->size() != 1)
    return wrong("not exactly one subject");
  const Json& subject = subjects->front();
  std::string name = text_at(subject, "name");
  if (name.empty()) return wrong("the subject has no name");
  const Json* const digests = member(subject, "digest");
  std::string root = digests != nullptr ? text_at(*digests, "sha256") : "";
  if (root.empty()) return wrong("the subject has no SHA-256 digest");
  return std::pair(std::move(name), std::move(root));
}

}  // namespace

const char* hash_name(Hash hash) { return hash == Hash::sha256 ? "sha256" : "blake2b"; }

Digest root_of(const std::vector<Resource>& resources) {
  Sha256 hash;
  for (const Resource& resource : resources) hash.update(from_hex(resource.digest).value());
  return hash.finish();
}

bool is_plain_name(std::string_view name) {
  if (name.find('\n') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    return false;
  while (true) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    if (part.size() == name.size()) return true;
    name.remove_prefix(part.size() + 1);
  }
}

std::string write_statement(const Statement& statement) {
  VERBATIM_CHECK(statement.method == Method::files);
  Json resources = Json::array();
  for (const Resource& resource : statement.resources) {
    resources.push_back({{"name", resource.file},
                         {"algorithm", hash_name(statement.hash)},
                         {"digest", resource.digest}});
  }
  Json serialization = {{"method", "files"},
                        {"hash_type", hash_name(statement.hash)},
                        {"allow_symlinks", statement.allow_symlinks}};
  if (!statement.ignore_paths.empty()) serialization["ignore_paths"] = statement.ignore_paths;
  const std::string root = root_of(statement.resources).hex();
  return canonical(
      {{"_type", kStatementType},
       {"subject", Json::array({{{"name", statement.model}, {"digest", {{"sha256", root}}}}})},
       {"predicateType", kPredicateType},
       {"predicate",
        {{"resources", std::move(resources)}, {"serialization", std::move(serialization)}}}});
}

Checked<Statement> read_statement(std::string_view payload) {
  const auto json = parse_bounded(payload, "statement");
  if (!json) return json.error();
  if (text_at(*json, "_type") != kStatementType) return wrong("no in-toto Statement v1");
  const std::string type = text_at(*json, "predicateType");
  if (type == kPredicateTypeBefore)
    return Problem{"predicate_type",
                   "signed by a version before 1.0 (" + type + "): sign it again"};
  if (type != kPredicateType)
    return Problem{"predicate_type", "no model signature, but '" + type.substr(0, 200) + "'"};
  const auto known = check_members(*json, "the statement",
                                   {"_type", "subject", "predicateType", "predicate"}, "statement");
  if (!known) return known.error();
  const Json* const predicate = member(*json, "predicate");
  if (predicate == nullptr) return wrong("no predicate");
  const auto members =
      check_members(*predicate, "the predicate", {"resources", "serialization"}, "statement");
  if (!members) return members.error();
  const auto subject = read_subject(*json);
  if (!subject) return subject.error();
  Statement statement;
  statement.model = subject->first;
  if (const auto read = read_serialization(*predicate, statement); !read) return read.error();
  if (const auto read = read_resources(*predicate, statement); !read) return read.error();
  const std::string root = root_of(statement.resources).hex();
  if (root != subject->second) {
    return Problem{"root", "the statement says " + subject->second.substr(0, 64) +
                               ", but its resources give " + root};
  }
  return statement;
}

}  // namespace verbatim::model_signing
