#include "local_engine/files/safetensors.hpp"

#include "schema/canonical_json.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::uint64_t kIndexBytesMax = 100'000'000;
constexpr std::size_t kDimensionsMax = 8;

struct ElementType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<kernels::Dtype> dtype;
};
constexpr std::array<ElementType, 14> kElementTypes{{
    {"F32", 4, kernels::Dtype::f32},
    {"F16", 2, kernels::Dtype::f16},
    {"BF16", 2, kernels::Dtype::bf16},
    {"F64", 8, {}},
    {"I64", 8, {}},
    {"I32", 4, {}},
    {"I16", 2, {}},
    {"I8", 1, {}},
    {"U64", 8, {}},
    {"U32", 4, {}},
    {"U16", 2, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
    {"F8_E4M3", 1, {}},
}};

Error malformed(const std::filesystem::path& file, std::string what) {
  return {Errc::invalid_input, std::move(what), file.string(), ""};
}

/// One entry of the header, its data placed but not yet checked against its neighbours.
struct Entry {
  Tensor tensor;
  std::uint64_t begin = 0, end = 0;
};

Result<std::vector<std::uint64_t>> read_unsigned_array(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array())
    return Error{Errc::invalid_input, std::string("no array '") + key + "'", "", ""};
  std::vector<std::uint64_t> values;
  for (const auto& value : *found) {
    if (!value.is_number_unsigned())
      return Error{Errc::invalid_input, std::string("'") + key + "' holds something else", "", ""};
    values.push_back(value.get<std::uint64_t>());
  }
  return values;
}

/// `data_bytes`: how many follow the header.
Result<Entry> read_entry(const std::string& name, const Json& json, std::uint64_t data_bytes) {
  const auto fault = [&](const std::string& what) {
    return Error{Errc::invalid_input, "tensor '" + printable(name) + "': " + what, "", ""};
  };
  if (!json.is_object()) return fault("not an object");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return fault("no dtype");
  const auto& type_name = dtype->get_ref<const std::string&>();
  const auto* type = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                  [&](const auto& t) { return t.name == type_name; });
  if (type == kElementTypes.end())
    return Error{Errc::unsupported,
                 "tensor '" + printable(name) + "' has element type " + printable(type_name), "",
                 ""};
  const auto shape = read_unsigned_array(json, "shape");
  if (!shape) return fault(shape.error().what);
  if (shape->size() > kDimensionsMax) return fault("more than 8 dimensions");
  const auto offsets = read_unsigned_array(json, "data_offsets");
  if (!offsets) return fault(offsets.error().what);
  if (offsets->size() != 2) return fault("data_offsets is not a pair");

  Entry entry;
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  if (entry.begin > entry.end || entry.end > data_bytes)
    return fault("data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                 "] are outside the " + std::to_string(data_bytes) + " data bytes");
  const auto elements = checked_product(*shape);
  std::uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, type->bytes, &bytes) ||
      bytes != entry.end - entry.begin)
    return fault("shape " + shape_text(*shape) + " of " + type_name + " does not fill its " +
                 std::to_string(entry.end - entry.begin) + " bytes");
  entry.tensor = {name, type->dtype, type_name, *shape, *elements, {}};
  return entry;
}

/// Every byte of the data belongs to exactly one tensor.
Result<void> check_coverage(std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  std::uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.begin != covered)
      return Error{Errc::invalid_input,
                   "tensor '" + printable(entry.tensor.name) +
                       (entry.begin < covered ? "' overlaps the one before it"
                                              : "' leaves a gap after the one before it"),
                   "", ""};
    covered = entry.end;
  }
  if (covered != data_bytes)
    return Error{Errc::invalid_input,
                 std::to_string(data_bytes - covered) + " bytes after the last tensor", "", ""};
  return {};
}

Result<std::vector<Entry>> read_header(std::string_view text, std::uint64_t data_bytes) {
  const auto header = parse_json(text);
  if (!header) return Error{Errc::invalid_input, "header: " + header.error().message(), "", ""};
  if (!header->is_object())
    return Error{Errc::invalid_input, "the header is not an object", "", ""};
  std::vector<Entry> entries;
  for (const auto& [name, json] : header->items()) {
    if (name == "__metadata__") {
      if (!json.is_object())
        return Error{Errc::invalid_input, "__metadata__ is not an object", "", ""};
      continue;
    }
    auto entry = read_entry(name, json, data_bytes);
    if (!entry) return entry.error();
    entries.push_back(std::move(*entry));
  }
  return entries;
}

}  // namespace

Result<void> read_safetensors(const std::filesystem::path& file, TensorSet& into) {
  const auto mapped = MappedFile::open(file);
  if (!mapped) return mapped.error();
  const Bytes bytes = (*mapped)->bytes();

  // 1. The length of the header, bounded by the file before anything is read by it.
  constexpr std::size_t kLengthBytes = 8;
  if (bytes.size() < kLengthBytes)
    return malformed(file, "not safetensors: " + std::to_string(bytes.size()) + " bytes");
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) header_bytes |= std::uint64_t{bytes[i]} << (8 * i);
  if (header_bytes > kSafetensorsHeaderBytesMax)
    return malformed(file,
                     "safetensors header of " + std::to_string(header_bytes) + " bytes: too long");
  if (header_bytes > bytes.size() - kLengthBytes)
    return malformed(file, "truncated: the safetensors header says " +
                               std::to_string(header_bytes) + " bytes, the file has " +
                               std::to_string(bytes.size() - kLengthBytes));

  // 2. The header, each tensor by itself; 3. all of them together.
  const Bytes data = bytes.subspan(kLengthBytes + header_bytes);
  auto entries = read_header(as_text(bytes.subspan(kLengthBytes, header_bytes)), data.size());
  if (!entries) return Error{entries.error().code, entries.error().what, file.string(), ""};
  if (const auto covered = check_coverage(*entries, data.size()); !covered)
    return malformed(file, covered.error().what);

  for (auto& entry : *entries) {
    entry.tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    std::string name = entry.tensor.name;
    if (!into.tensors.emplace(name, std::move(entry.tensor)).second)
      return malformed(file, "tensor '" + printable(name) + "' is in another shard too");
  }
  into.files.push_back(*mapped);
  return {};
}

namespace {

/// tensor name -> shard's file name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

Result<WeightMap> read_index(const std::filesystem::path& file) {
  const auto text = read_file(file, kIndexBytesMax);
  if (!text) return text.error();
  const auto index = parse_json(*text);
  if (!index) return malformed(file, index.error().message());
  const auto map = index->is_object() ? index->find("weight_map") : index->end();
  if (map == index->end() || !map->is_object() || map->empty())
    return malformed(file, "the index has no weight_map");
  WeightMap result;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string())
      return malformed(file, "weight_map of '" + printable(name) + "' is not a file name");
    const auto& shard_name = shard.get_ref<const std::string&>();
    // A shard lies beside its index: a name with a folder in it could leave the model.
    if (shard_name.empty() || shard_name.find('/') != std::string::npos || shard_name == ".." ||
        shard_name == "." || shard_name.find('\0') != std::string::npos)
      return malformed(file, "shard '" + printable(shard_name) + "' is not a plain file name");
    result.emplace(name, shard_name);
  }
  return result;
}

}  // namespace

Result<TensorSet> read_safetensors_folder(const std::filesystem::path& folder) {
  TensorSet set;
  const auto index_file = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (!std::filesystem::exists(index_file, ignored)) {
    const auto single = folder / "model.safetensors";
    if (!std::filesystem::exists(single, ignored))
      return Error{Errc::not_found, "no model.safetensors and no model.safetensors.index.json",
                   folder.string(), "give a Hugging Face folder or a .gguf file"};
    if (const auto done = read_safetensors(single, set); !done) return done.error();
    return set;
  }

  const auto index = read_index(index_file);
  if (!index) return index.error();
  std::set<std::string> shards;
  for (const auto& [name, shard] : *index) shards.insert(shard);
  for (const auto& shard : shards) {
    TensorSet one;
    if (const auto done = read_safetensors(folder / shard, one); !done) return done.error();
    for (auto& [name, tensor] : one.tensors) {
      const auto listed = index->find(name);
      if (listed == index->end() || listed->second != shard)
        return malformed(folder / shard,
                         "tensor '" + printable(name) + "' is not where the index says");
      set.tensors.emplace(name, std::move(tensor));
    }
    set.files.insert(set.files.end(), one.files.begin(), one.files.end());
  }
  for (const auto& [name, shard] : *index) {
    if (!set.tensors.contains(name))
      return malformed(folder / shard, "tensor '" + printable(name) + "' of the index is missing");
  }
  return set;
}

}  // namespace verbatim::local_engine
