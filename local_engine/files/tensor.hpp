#pragma once
// A named tensor as it lies in a model file.

#include "kernels/dtype.hpp"
#include "local_engine/files/mapped_file.hpp"
#include "schema/bytes.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// Row-major, outermost dimension first, little-endian. The data is borrowed from the mapped file
/// and has no alignment.
struct Tensor {
  std::string name;
  std::optional<kernels::Dtype> dtype;  ///< none: a type known by name only, and refused on use
  std::string type_name;                ///< as the format spells it: "BF16", "Q4_K"
  std::vector<std::uint64_t> shape;     ///< the product is `elements`
  std::uint64_t elements = 0;
  Bytes data;
};

/// The tensors of a model by name, and the mappings that keep their data alive.
struct TensorSet {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::vector<std::shared_ptr<const MappedFile>> files;
};

/// The product, or nothing when it exceeds 64 bits.
[[nodiscard]] std::optional<std::uint64_t> checked_product(const std::vector<std::uint64_t>& shape);

/// "[2, 3]".
[[nodiscard]] std::string shape_text(const std::vector<std::uint64_t>& shape);

/// Text from a hostile file, for a message: control characters replaced, at most 80 bytes.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace verbatim::local_engine
