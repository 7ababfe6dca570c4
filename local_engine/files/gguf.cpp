#include "local_engine/files/gguf.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <tuple>
#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::uint64_t kTensorNameBytesMax = 64;
constexpr std::uint64_t kDimensionsMax = 4;
constexpr std::uint64_t kInfoBytesMin = 8 + 4 + 4 + 8;  // name's length, n_dims, type, offset
constexpr std::uint64_t kAlignmentDefault = 32;
constexpr std::uint64_t kAlignmentMax = 1u << 20;

/// A tensor type of the format: `block_bytes` hold `block_elements`.
struct TensorType {
  std::uint32_t number;
  std::string_view name;
  std::uint64_t block_elements, block_bytes;
  std::optional<kernels::Dtype> dtype;
};
constexpr TensorType computed(std::uint32_t number, std::string_view name, kernels::Dtype dtype) {
  const auto layout = kernels::block_layout(dtype);
  return {number, name, layout.elements, layout.bytes, dtype};
}
using kernels::Dtype;
constexpr std::array<TensorType, 25> kTensorTypes{{
    computed(0, "F32", Dtype::f32),
    computed(1, "F16", Dtype::f16),
    computed(30, "BF16", Dtype::bf16),
    computed(2, "Q4_0", Dtype::q4_0),
    computed(3, "Q4_1", Dtype::q4_1),
    computed(6, "Q5_0", Dtype::q5_0),
    computed(7, "Q5_1", Dtype::q5_1),
    computed(8, "Q8_0", Dtype::q8_0),
    computed(12, "Q4_K", Dtype::q4_k),
    computed(13, "Q5_K", Dtype::q5_k),
    computed(14, "Q6_K", Dtype::q6_k),
    {9, "Q8_1", 32, 36, {}},
    {10, "Q2_K", 256, 84, {}},
    {11, "Q3_K", 256, 110, {}},
    {15, "Q8_K", 256, 292, {}},
    {20, "IQ4_NL", 32, 18, {}},
    {23, "IQ4_XS", 256, 136, {}},
    {24, "I8", 1, 1, {}},
    {25, "I16", 1, 2, {}},
    {26, "I32", 1, 4, {}},
    {27, "I64", 1, 8, {}},
    {28, "F64", 1, 8, {}},
    {34, "TQ1_0", 256, 54, {}},
    {35, "TQ2_0", 256, 66, {}},
    {39, "MXFP4", 32, 17, {}},
}};

Error malformed(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }

/// A tensor info; its place in the data is not yet checked.
struct Info {
  Tensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

Result<Info> read_info(GgufReader& in) {
  Info info;
  const std::string_view name = in.string(kTensorNameBytesMax);
  info.tensor.name = name;
  const std::uint64_t dimensions = in.number(4);
  if (!in.ok() || dimensions > kDimensionsMax)
    return malformed("tensor info '" + printable(name) + "' is malformed");
  for (std::uint64_t i = 0; i < dimensions; ++i) info.tensor.shape.push_back(in.number(8));
  const std::uint64_t number = in.number(4);
  info.offset = in.number(8);
  if (!in.ok()) return malformed("truncated at the info of tensor '" + printable(name) + "'");

  const std::uint64_t innermost = dimensions == 0 ? 1 : info.tensor.shape.front();
  std::reverse(info.tensor.shape.begin(), info.tensor.shape.end());
  const auto* type = std::find_if(kTensorTypes.begin(), kTensorTypes.end(),
                                  [&](const auto& t) { return t.number == number; });
  if (type == kTensorTypes.end())
    return Error{Errc::unsupported,
                 "tensor '" + printable(name) + "' has type number " + std::to_string(number), "",
                 ""};
  info.tensor.dtype = type->dtype;
  info.tensor.type_name = type->name;
  const auto elements = checked_product(info.tensor.shape);
  if (!elements || innermost % type->block_elements != 0 ||
      __builtin_mul_overflow(*elements / type->block_elements, type->block_bytes, &info.bytes))
    return malformed("tensor '" + printable(name) + "' has the impossible shape " +
                     shape_text(info.tensor.shape) + " of " + std::string(type->name));
  info.tensor.elements = *elements;
  return info;
}

Result<std::uint64_t> read_alignment(const GgufMetadata& metadata) {
  const auto alignment = metadata.integer("general.alignment", kAlignmentDefault);
  if (!alignment) return alignment.error();
  if (*alignment == 0 || *alignment % 8 != 0 || *alignment > kAlignmentMax)
    return malformed("general.alignment is " + std::to_string(*alignment) +
                     ", not a multiple of 8 up to 1048576");
  return *alignment;
}

/// Gives each tensor its bytes. They may leave gaps (padding), but not overlap or pass the end.
Result<void> place(std::vector<Info>& infos, std::uint64_t alignment, Bytes data, TensorSet& set) {
  std::sort(infos.begin(), infos.end(), [](const Info& a, const Info& b) {
    return std::tie(a.offset, a.bytes, a.tensor.name) < std::tie(b.offset, b.bytes, b.tensor.name);
  });
  std::uint64_t used = 0;
  for (auto& info : infos) {
    const std::string name = info.tensor.name;
    if (info.offset % alignment != 0)
      return malformed("tensor '" + printable(name) + "' is at " + std::to_string(info.offset) +
                       ", not a multiple of " + std::to_string(alignment));
    if (info.offset < used)
      return malformed("tensor '" + printable(name) + "' overlaps the one before it");
    if (info.offset > data.size() || info.bytes > data.size() - info.offset)
      return malformed("truncated: tensor '" + printable(name) + "' ends after the file");
    used = info.offset + info.bytes;
    info.tensor.data = data.subspan(info.offset, info.bytes);
    if (!set.tensors.emplace(name, std::move(info.tensor)).second)
      return malformed("tensor '" + printable(name) + "' occurs twice");
  }
  return {};
}

Result<void> read_tensors(Bytes bytes, GgufFile& file) {
  const auto split = file.metadata.integer("split.count", 1);
  if (!split) return split.error();
  if (*split > 1)
    return Error{Errc::unsupported, "one part of a split GGUF", "",
                 "merge the parts into one file"};
  const auto alignment = read_alignment(file.metadata);
  if (!alignment) return alignment.error();
  if (file.metadata.tensor_count() == 0) return {};  // a vocabulary alone needs no padding

  GgufReader in(bytes, file.metadata.end());
  if (file.metadata.tensor_count() > in.left() / kInfoBytesMin)
    return malformed("tensor count " + std::to_string(file.metadata.tensor_count()) +
                     " is more than the file can hold");
  std::vector<Info> infos;
  for (std::uint64_t i = 0; i < file.metadata.tensor_count(); ++i) {
    auto info = read_info(in);
    if (!info) return info.error();
    infos.push_back(std::move(*info));
  }
  const std::uint64_t padding = (*alignment - in.offset() % *alignment) % *alignment;
  if (padding > in.left()) return malformed("truncated before the tensors");
  return place(infos, *alignment, bytes.subspan(in.offset() + padding), file.tensors);
}

}  // namespace

Result<GgufFile> read_gguf(const std::filesystem::path& path) {
  const auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  auto metadata = GgufMetadata::parse((*mapped)->bytes(), path.string());
  if (!metadata) return metadata.error();
  GgufFile file{std::move(*metadata), {}};
  file.tensors.files = {*mapped};
  if (const auto read = read_tensors((*mapped)->bytes(), file); !read) {
    Error error = read.error();
    error.where = path.string();
    return error;
  }
  return file;
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream in(path, std::ios::binary);
  std::array<char, 4> magic{};
  return in.read(magic.data(), magic.size()) && std::string_view(magic.data(), 4) == "GGUF";
}

}  // namespace verbatim::local_engine
