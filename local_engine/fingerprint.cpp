#include "local_engine/fingerprint.hpp"

#include "kernels/thread_pool.hpp"
#include "local_engine/files/mapped_file.hpp"
#include "local_engine/files/model_folder.hpp"
#include "local_engine/fingerprint_files.hpp"
#include "schema/canonical_json.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <utility>

namespace verbatim::local_engine {
namespace {

namespace fs = std::filesystem;

Error refused(std::string what, const fs::path& where, std::string advice = "") {
  return {Errc::invalid_input, std::move(what), where.string(), std::move(advice)};
}

/// A file of the model; large ones are hashed later, together.
struct ListedFile {
  FileDigest digest;
  std::shared_ptr<const MappedFile> unhashed;
};

Result<ListedFile> list_file(const fs::path& path, std::string name) {
  constexpr std::size_t kLargeBytes = 1u << 20;
  const auto file = MappedFile::open(path);
  if (!file) return file.error();
  const Bytes bytes = (*file)->bytes();
  if (bytes.size() >= kLargeBytes)
    return ListedFile{{std::move(name), bytes.size(), Digest{}}, *file};
  return ListedFile{{std::move(name), bytes.size(), sha256(bytes)}, nullptr};
}

/// What is to be hashed, and where the digest goes.
struct Hashing {
  Bytes bytes;
  Digest* into;
};

/// Every processor takes the next of them, the largest first. The digests of a model's files and
/// those of its tensors go over the same bytes: this way side by side.
void hash_all(std::vector<Hashing> work) {
  std::sort(work.begin(), work.end(),
            [](const auto& a, const auto& b) { return a.bytes.size() > b.bytes.size(); });
  kernels::ThreadPool pool(0);
  std::atomic<std::size_t> next{0};
  pool.run(static_cast<std::size_t>(pool.threads()), [&](std::size_t, std::size_t) {
    for (std::size_t i = next++; i < work.size(); i = next++) *work[i].into = sha256(work[i].bytes);
  });
}

Result<Digest> tokenizer_digest(const ModelFiles& files) {
  if (!files.has_tokenizer) return Digest{};
  if (files.gguf) return files.gguf->digest("tokenizer.ggml.");
  const auto file = MappedFile::open(files.path / "tokenizer.json");
  if (!file) return file.error();
  return sha256((*file)->bytes());
}

Result<Digest> config_digest(const ModelFiles& files) {
  if (files.gguf) {
    const auto architecture = files.gguf->text("general.architecture");
    if (!architecture) return architecture.error();
    const Digest keys = files.gguf->digest(*architecture + ".");
    return sha256({as_bytes(*architecture), keys.view()});
  }
  const auto canonical_config = canonicalize(files.config_text, Numbers::ecmascript);
  if (!canonical_config)
    return refused(canonical_config.error().message(), files.path / "config.json");
  return sha256(*canonical_config);
}

/// What ends an answer: it decides how long an output is, so it belongs to the identity.
Json eos_ids(const ModelFiles& files) {
  if (files.generation_config.is_object() && files.generation_config.contains("eos_token_id")) {
    const Json& ids = files.generation_config.at("eos_token_id");
    // Anything else is refused when the model is loaded; here it must only not be a float.
    const bool integers =
        ids.is_array()
            ? std::all_of(ids.begin(), ids.end(),
                          [](const Json& id) {
                            return id.is_number_unsigned() && id.get<std::uint64_t>() < (1u << 31);
                          })
            : ids.is_number_unsigned() && ids.get<std::uint64_t>() < (1u << 31);
    if (integers) return ids;
  }
  return nullptr;
}

/// `digests`: one a tensor, in order of their names.
Json tensor_list(const TensorSet& set, const std::vector<Digest>& digests) {
  Json list = Json::array();
  for (const auto& [name, tensor] : set.tensors) {
    Json shape = Json::array();
    for (const auto size : tensor.shape) shape.push_back(std::to_string(size));
    // A GGUF's names are bytes; what is no UTF-8 is spelled in hexadecimal.
    list.push_back({{"dtype", tensor.type_name},
                    {"name", is_utf8(name) ? name : "hex:" + to_hex(as_bytes(name))},
                    {"sha256", digests[list.size()].hex()},
                    {"shape", std::move(shape)}});
  }
  return list;
}

Result<std::string> architecture_of(const ModelFiles& files) {
  if (files.gguf) return files.gguf->text("general.architecture");
  if (files.config.is_object() && files.config.contains("architectures")) {
    const Json& list = files.config.at("architectures");
    if (list.is_array() && !list.empty() && list.front().is_string())
      return list.front().get<std::string>();
  }
  return std::string();
}

/// Sorted by name; the large ones not hashed yet.
Result<std::vector<ListedFile>> list_files(const fs::path& root) {
  auto listed = list_model_files(root, is_never_of_a_model);
  if (!listed) return listed.error();
  if (listed->empty()) return refused("the folder is empty", root);
  std::vector<ListedFile> files;
  for (auto& found : *listed) {
    if (found.refused) return *found.refused;
    auto file = list_file(found.path, std::move(found.name));
    if (!file) return file.error();
    files.push_back(std::move(*file));
  }
  return files;
}

/// Hashes what is left of `files`, and `tensors`.
std::vector<FileDigest> hash_with_tensors(std::vector<ListedFile> files, const TensorSet& tensors,
                                          std::vector<Digest>& tensor_digests) {
  std::vector<Hashing> work;
  for (auto& file : files) {
    if (file.unhashed) work.push_back({file.unhashed->bytes(), &file.digest.sha256});
  }
  tensor_digests.resize(tensors.tensors.size());
  auto* into = tensor_digests.data();
  for (const auto& [name, tensor] : tensors.tensors) work.push_back({tensor.data, into++});
  hash_all(std::move(work));
  std::vector<FileDigest> digests;
  for (auto& file : files) digests.push_back(std::move(file.digest));
  return digests;
}

}  // namespace

Result<std::vector<FileDigest>> digest_files(const fs::path& root) {
  auto files = list_files(root);
  if (!files) return files.error();
  std::vector<Digest> none;
  return hash_with_tensors(std::move(*files), {}, none);
}

Digest manifest_digest(const std::vector<FileDigest>& files) {
  Json list = Json::array();
  for (const auto& file : files)
    list.push_back({{"name", file.name}, {"sha256", file.sha256.hex()}, {"size", file.size}});
  return sha256(canonical(list));
}

Digest dirhash1(const std::vector<FileDigest>& files) {
  Sha256 hash;
  for (const auto& file : files) hash.update(file.sha256.hex() + "  " + file.name + "\n");
  return hash.finish();
}

Digest oms_root(const std::vector<FileDigest>& files) {
  Sha256 hash;
  for (const auto& file : files) hash.update(file.sha256.view());
  return hash.finish();
}

Result<Fingerprint> fingerprint_of(const ModelFiles& files) {
  Fingerprint result;
  auto listed = list_files(files.path);
  if (!listed) return listed.error();
  std::vector<Digest> tensors;
  result.files = hash_with_tensors(std::move(*listed), files.tensors, tensors);
  result.manifest_sha256 = manifest_digest(result.files);
  result.dirhash1 = dirhash1(result.files);
  result.oms_root = oms_root(result.files);

  auto architecture = architecture_of(files);
  if (!architecture) return architecture.error();
  result.architecture = std::move(*architecture);
  std::set<std::string> types;
  for (const auto& [name, tensor] : files.tensors.tensors) {
    result.parameters += tensor.elements;
    types.insert(tensor.type_name);
  }
  for (const auto& type : types) result.dtype += (result.dtype.empty() ? "" : "+") + type;

  const auto tokenizer = tokenizer_digest(files);
  if (!tokenizer) return tokenizer.error();
  result.tokenizer_sha256 = *tokenizer;
  const auto config = config_digest(files);
  if (!config) return config.error();
  Json list = tensor_list(files.tensors, tensors);
  result.config_sha256 = *config;
  result.tensors_sha256 = sha256(canonical(list));
  Json identity = {{"config_sha256", config->hex()},
                   {"format", "verbatim/weights/v1"},
                   {"tensors", std::move(list)}};
  if (Json eos = eos_ids(files); !eos.is_null()) identity["eos_ids"] = std::move(eos);
  if (files.has_tokenizer) identity["tokenizer_sha256"] = tokenizer->hex();
  if (!files.chat_template.empty()) {
    result.chat_template_sha256 = sha256(files.chat_template);
    identity["chat_template_sha256"] = result.chat_template_sha256.hex();
  }
  result.weights_sha256 = sha256(canonical(identity));
  return result;
}

Result<Fingerprint> fingerprint(const fs::path& path) {
  const auto files = open_model(path);
  if (!files) return files.error();
  return fingerprint_of(*files);
}

}  // namespace verbatim::local_engine
