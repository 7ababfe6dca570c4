#pragma once
// Reads safetensors: one file, or shards named by an index.
//
//   u64 little-endian length of the header
//   | header: JSON {name: {dtype, shape, data_offsets: [begin, end]},
//                   "__metadata__": {string: string}}
//   | data
//
// Everything in a file is hostile. Refused with `invalid_input`, naming the file and the tensor: a
// header that is not such JSON or is over 100 MB, duplicate keys, a size that is not product(shape)
// * element size, offsets that overlap, leave a gap or pass the end, bytes after the last tensor.

#include "local_engine/files/tensor.hpp"
#include "schema/error.hpp"

#include <filesystem>

namespace verbatim::local_engine {

inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

/// Adds the tensors of one file to `into`. A name already there is `invalid_input`. Element types
/// that the kernels do not know (F64, I64, ...) are read without a dtype. On an error `into` may
/// hold some of the tensors.
[[nodiscard]] Result<void> read_safetensors(const std::filesystem::path& file, TensorSet& into);

/// Reads the weights of a Hugging Face folder: the shards that `model.safetensors.index.json`
/// names, and only those, or else `model.safetensors`. Beyond read_safetensors: `not_found` without
/// either; `invalid_input` when the index and the shards disagree about where a tensor is, or a
/// shard's name leaves the folder.
[[nodiscard]] Result<TensorSet> read_safetensors_folder(const std::filesystem::path& folder);

}  // namespace verbatim::local_engine
