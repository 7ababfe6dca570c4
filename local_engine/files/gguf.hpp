#pragma once
// The tensors of a GGUF file (version 2 or 3), behind the key-values that text/gguf_metadata.hpp
// reads.
//
//   ... key-values
//   | tensor info: string name, u32 n_dims, u64 dims (innermost first), u32 type,
//                  u64 offset from the start of the data
//   | padding to general.alignment (default 32) | data
//
// Everything in a file is hostile: each count and length is bounded by the bytes that are left
// before it is used.

#include "local_engine/files/tensor.hpp"
#include "local_engine/text/gguf_metadata.hpp"
#include "schema/error.hpp"

#include <filesystem>

namespace verbatim::local_engine {

struct GgufFile {
  GgufMetadata metadata;
  TensorSet tensors;  ///< shapes are turned: outermost dimension first
};

/// `not_found`, `storage_failed`, `invalid_input` (malformed: what and where), `unsupported`
/// (version 1, big-endian, one part of a split model, a tensor type this build has never heard of),
/// `newer_version`. Tensors of a type that the kernels do not decode are read without a dtype, and
/// refused by whoever wants to compute with them.
[[nodiscard]] Result<GgufFile> read_gguf(const std::filesystem::path& path);

/// True if the file starts with "GGUF". False when it cannot be read.
[[nodiscard]] bool is_gguf(const std::filesystem::path& path);

}  // namespace verbatim::local_engine
