#pragma once
// The tensors of a model's files on their way to the kernels.

#include "kernels/thread_pool.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/model_files.hpp"
#include "local_engine/model/weights.hpp"
#include "schema/error.hpp"

#include <set>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// The two spellings of a tensor's name.
struct TensorNames {
  std::string hugging_face, gguf;
};
/// "model.layers.N." + hugging_face, "blk.N." + gguf.
[[nodiscard]] TensorNames in_layer(std::size_t layer, const std::string& hugging_face,
                                   const std::string& gguf);

/// Rows of one element type, borrowed from the file, in the order in which the model wants them.
struct WeightRows {
  std::vector<const std::byte*> rows;
  kernels::Dtype dtype = kernels::Dtype::f32;
  std::size_t cols = 0;
};

/// Hands out the tensors of a model, checked for their shape, and remembers which were asked for.
/// Errors: `invalid_input` (no such tensor, another shape), `unsupported` (an element type that the
/// kernels do not know, by name).
class WeightSource {
 public:
  using Shape = std::vector<std::uint64_t>;

  WeightSource(const ModelFiles& files, const ModelConfig& config, kernels::ThreadPool* pool)
      : files_(files), config_(config), pool_(pool) {}

  [[nodiscard]] Result<WeightRows> rows(const TensorNames& names, std::size_t rows,
                                        std::size_t cols);
  /// Rows of one of `experts` matrices that a GGUF keeps in one tensor (experts, rows, cols).
  [[nodiscard]] Result<WeightRows> expert_rows(const TensorNames& names, std::size_t expert,
                                               std::size_t rows, std::size_t cols);
  [[nodiscard]] Result<std::vector<float>> vector(const TensorNames& names, std::size_t size);
  /// The weights of a norm, as they are multiplied with.
  [[nodiscard]] Result<std::vector<float>> norm(const TensorNames& names, std::size_t size);
  /// A matrix by itself, without a bias.
  [[nodiscard]] Result<Linear> linear(const TensorNames& names, std::size_t rows, std::size_t cols);
  /// Matrices of equal width below each other; neighbours of one element type become one.
  [[nodiscard]] Linear stacked(std::vector<WeightRows> parts) const;

  /// `invalid_input` unless every tensor of the files was asked for.
  [[nodiscard]] Result<void> refuse_unused() const;
  [[nodiscard]] bool gguf() const { return files_.gguf.has_value(); }

 private:
  [[nodiscard]] Result<const Tensor*> take(const TensorNames& names, const Shape& shape);
  [[nodiscard]] Error wrong(std::string what) const;

  const ModelFiles& files_;
  const ModelConfig& config_;
  kernels::ThreadPool* pool_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace verbatim::local_engine
