#include "local_engine/model/weight_source.hpp"

#include <utility>

namespace verbatim::local_engine {
namespace {

std::vector<const std::byte*> pointers(Bytes data, std::size_t rows, std::size_t row_bytes) {
  std::vector<const std::byte*> out;
  for (std::size_t row = 0; row < rows; ++row)
    out.push_back(reinterpret_cast<const std::byte*>(data.data()) + row * row_bytes);
  return out;
}

}  // namespace

TensorNames in_layer(std::size_t layer, const std::string& hugging_face, const std::string& gguf) {
  const auto index = std::to_string(layer);
  return {"model.layers." + index + "." + hugging_face, "blk." + index + "." + gguf};
}

Error WeightSource::wrong(std::string what) const {
  return {Errc::invalid_input, std::move(what), files_.path.string(), ""};
}

Result<const Tensor*> WeightSource::take(const TensorNames& names, const Shape& shape) {
  const auto& name = files_.gguf ? names.gguf : names.hugging_face;
  const auto found = files_.tensors.tensors.find(name);
  if (found == files_.tensors.tensors.end()) return wrong("no tensor '" + name + "'");
  const Tensor& tensor = found->second;
  if (tensor.shape != shape)
    return wrong("tensor '" + name + "' has shape " + shape_text(tensor.shape) + ", not " +
                 shape_text(shape));
  if (!tensor.dtype)
    return Error{
        Errc::unsupported,
        "tensor '" + name + "' is of type " + tensor.type_name + ", which is not supported",
        files_.path.string(),
        "use a file with F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K"};
  used_.insert(name);
  return &tensor;
}

Result<WeightRows> WeightSource::rows(const TensorNames& names, std::size_t rows,
                                      std::size_t cols) {
  const auto tensor = take(names, {rows, cols});
  if (!tensor) return tensor.error();
  const auto dtype = *(*tensor)->dtype;
  return WeightRows{pointers((*tensor)->data, rows, kernels::row_bytes(dtype, cols)), dtype, cols};
}

Result<WeightRows> WeightSource::expert_rows(const TensorNames& names, std::size_t expert,
                                             std::size_t rows, std::size_t cols) {
  if (!gguf()) return this->rows(names, rows, cols);
  const auto tensor = take(names, {config_.moe.experts, rows, cols});
  if (!tensor) return tensor.error();
  const auto dtype = *(*tensor)->dtype;
  const std::size_t row_bytes = kernels::row_bytes(dtype, cols);
  const auto mine = (*tensor)->data.subspan(expert * rows * row_bytes, rows * row_bytes);
  return WeightRows{pointers(mine, rows, row_bytes), dtype, cols};
}

Result<std::vector<float>> WeightSource::vector(const TensorNames& names, std::size_t size) {
  const auto tensor = take(names, {size});
  if (!tensor) return tensor.error();
  std::vector<float> values(size);
  kernels::to_f32((*tensor)->data.data(), *(*tensor)->dtype, size, values.data());
  return values;
}

Result<std::vector<float>> WeightSource::norm(const TensorNames& names, std::size_t size) {
  auto weights = vector(names, size);
  if (!weights || !config_.norm_plus_one) return weights;
  for (float& weight : *weights) weight = 1.0f + weight;
  return weights;
}

Result<Linear> WeightSource::linear(const TensorNames& names, std::size_t rows, std::size_t cols) {
  auto part = this->rows(names, rows, cols);
  if (!part) return part.error();
  std::vector<WeightRows> parts;
  parts.push_back(std::move(*part));
  return stacked(std::move(parts));
}

Linear WeightSource::stacked(std::vector<WeightRows> parts) const {
  Linear out;
  for (std::size_t i = 0; i < parts.size();) {
    std::vector<const std::byte*> rows;
    const std::size_t first = i;
    for (; i < parts.size() && parts[i].dtype == parts[first].dtype; ++i)
      rows.insert(rows.end(), parts[i].rows.begin(), parts[i].rows.end());
    out.parts.emplace_back(rows, parts[first].dtype, parts[first].cols, pool_);
  }
  return out;
}

Result<void> WeightSource::refuse_unused() const {
  for (const auto& [name, tensor] : files_.tensors.tensors) {
    if (used_.contains(name)) continue;
    // Tied by configuration: the copy of the embedding that some files carry is not read.
    if (config_.tied && name == "lm_head.weight") continue;
    // Derived tables that old converters stored.
    if (!files_.gguf && name.ends_with(".rotary_emb.inv_freq")) continue;
    if (files_.gguf && name == "rope_freqs.weight") continue;  // in the configuration already
    return wrong("tensor '" + printable(name) + "' is no part of " + config_.architecture);
  }
  return {};
}

}  // namespace verbatim::local_engine
