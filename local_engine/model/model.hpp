#pragma once
// The forward pass of a decoder: rows of any sequences in, logits out. Who computes it is a matter of the backend.

#include "kernels/backend.hpp"
#include "kernels/memory.hpp"
#include "kernels/profile.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/thread_pool.hpp"
#include "local_engine/kv_cache.hpp"
#include "local_engine/layer_digests.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/weights.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// One token at one position of one sequence. Rows of a sequence come in rising positions, and all
/// before them have been computed, in this pass or an earlier one.
struct ForwardRow {
  TokenId token = 0;
  std::size_t position = 0;
  SequenceKv* kv = nullptr;  ///< holds position / 256 + 1 blocks
  bool wants_logits = false;
  bool range = false;  ///< out: the arithmetic left the profile; this row's result is none
  LayerDigests* digests = nullptr;  ///< takes what its detail wants of this row; null: none
};

/// What a model on a device throws where one in the host's memory would throw std::bad_alloc, and for the same reason:
/// the pass came to nothing, and whoever runs passes must choose. No row of it was computed.
class DeviceFailure : public std::exception {
 public:
  DeviceFailure(Error error, bool lost) : error_(std::move(error)), lost_(lost) {}
  [[nodiscard]] const char* what() const noexcept override { return error_.what.c_str(); }
  [[nodiscard]] const Error& error() const { return error_; }
  /// The device computes nothing any more. Otherwise it was out of memory, and later passes may succeed.
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  Error error_;
  bool lost_;
};

/// Numerics: the profile that it was loaded under. The logits of a row depend on the weights and on the tokens of its
/// own sequence up to its position; not on the other rows, their number, threads, backend, or how
/// the sequence was cut into passes. One thread at a time. Blocks of keys and values are of the model that made them.
class Model {
 public:
  /// On the processor: CpuModel. Errors as load_host_model().
  [[nodiscard]] static Result<std::unique_ptr<Model>> load(const ModelFiles& files,
                                                           kernels::Backend backend, int threads,
                                                           kernels::Profile profile);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] kernels::Profile profile() const { return profile_; }
  /// As recorded: "avx512", "cuda".
  [[nodiscard]] virtual std::string backend_name() const = 0;
  /// With which the processor computes what is its part: all of it, or what is said of logits.
  [[nodiscard]] kernels::Backend host_backend() const { return host_backend_; }
  [[nodiscard]] kernels::ThreadPool* pool() { return pool_.get(); }
  [[nodiscard]] std::size_t kv_block_bytes() const { return kv_pool_.block_bytes(); }
  [[nodiscard]] std::shared_ptr<KvBlock> new_kv_block() const { return kv_pool_.take(); }

  /// `storage_failed` when a file that weights are read from is not what it was: no result of this
  /// model may be given out any more. Cheap: one system call a file, none when all was copied.
  [[nodiscard]] virtual Result<void> check_files() const { return {}; }

  /// Computes all rows, stores their keys and values, and keeps the last hidden state of those that
  /// want logits.
  virtual void forward(std::span<ForwardRow> rows) = 0;
  /// Logits of rows `first` to `first + count` of those that wanted them, in order: out is (count,
  /// vocab).
  virtual void logits(std::size_t first, std::size_t count, float* out) = 0;
  /// What the logits of row `index` of those are made of: hidden_size values after the last norm. Valid
  /// until the next forward().
  [[nodiscard]] std::span<const float> last_hidden(std::size_t index) const {
    return {last_.data() + index * config_.hidden_size, config_.hidden_size};
  }

 protected:
  Model(const HostModel& host, kernels::Backend host_backend, kernels::Profile profile,
        KvPool::Allocate allocate);
  /// The rest of construction, which can fail.
  [[nodiscard]] Result<void> make_rotations(const std::string& path);
  /// What every pass begins with: positions_, watched_, tables of angles that reach. True when these grew.
  bool begin_pass(std::span<const ForwardRow> rows);
  /// Which of rotations_ a layer has.
  [[nodiscard]] std::size_t rotation_of(std::size_t layer) const {
    return rotations_.size() > 1 && config_.windows[layer] != 0 ? 1 : 0;
  }
  /// Digests what `stage` computed, for the rows that want it: row r is `width` values at x + r * stride, in the host's
  /// memory.
  void digest_rows(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
                   std::size_t width, std::size_t stride);
  /// Null when the work is too small to be worth waking threads. The bits are the same either way.
  [[nodiscard]] kernels::ThreadPool* pool_for(std::size_t operations);

  /// Angles of one kind of layer.
  struct Rotation {
    std::vector<float> inverse_frequencies;
    double attention_factor = 1;
    kernels::RopeTable table;
  };

  ModelConfig config_;
  kernels::Profile profile_;
  std::vector<Rotation> rotations_;  // the model's, then, if they have one, that of windowed layers
  kernels::AttentionShape attention_;
  bool watched_ = false;                // a row of this pass has digests
  std::vector<std::size_t> positions_;  // of the pass
  kernels::Scratch last_;               // (rows that want logits, hidden)

 private:
  [[nodiscard]] static Result<Rotation> make_rotation(const RopeConfig& rope, std::size_t dim);
  /// The tables cover more positions when they are first reached; no entry depends on their length.
  [[nodiscard]] Result<bool> grow_rotations(std::size_t positions);

  kernels::Backend host_backend_;
  std::shared_ptr<kernels::ThreadPool> pool_;
  KvPool kv_pool_;
};

/// Of profile mma-hopper/1: what its products are of; those of f32 and quantised weights are as in the other.
[[nodiscard]] constexpr bool on_tensor_cores(kernels::Dtype dtype) {
  return dtype == kernels::Dtype::bf16 || dtype == kernels::Dtype::f16;
}

}  // namespace verbatim::local_engine
