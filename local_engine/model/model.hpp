#pragma once
// The forward pass of a decoder: rows of any sequences in, logits out.

#include "kernels/backend.hpp"
#include "kernels/profile.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/thread_pool.hpp"
#include "local_engine/kv_cache.hpp"
#include "local_engine/layer_digests.hpp"
#include "local_engine/model/config.hpp"
#include "local_engine/model/weights.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <memory>
#include <span>
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

/// Numerics: the profile that it was loaded under. The logits of a row depend on the weights and on the tokens of its
/// own sequence up to its position; not on the other rows, their number, threads, backend, or how
/// the sequence was cut into passes. One thread at a time.
class Model {
 public:
  /// Brings the weights into the kernels' form: floats are copied, quantised rows are read from the
  /// mapped file as they are needed. Errors as read_config() and load_weights().
  [[nodiscard]] static Result<std::unique_ptr<Model>> load(const ModelFiles& files,
                                                           kernels::Backend backend, int threads,
                                                           kernels::Profile profile);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] kernels::Backend backend() const { return backend_; }
  [[nodiscard]] kernels::Profile profile() const { return profile_; }
  [[nodiscard]] kernels::ThreadPool* pool() { return pool_.get(); }
  [[nodiscard]] std::size_t kv_block_bytes() const;
  [[nodiscard]] std::shared_ptr<KvBlock> new_kv_block() const { return kv_pool_->take(); }

  /// `storage_failed` when a file that weights are read from is not what it was: no result of this
  /// model may be given out any more. Cheap: one system call a file, none when all was copied.
  [[nodiscard]] Result<void> check_files() const;

  /// Computes all rows, stores their keys and values, and keeps the last hidden state of those that
  /// want logits.
  void forward(std::span<ForwardRow> rows);
  /// Logits of rows `first` to `first + count` of those that wanted them, in order: out is (count,
  /// vocab).
  void logits(std::size_t first, std::size_t count, float* out);
  /// What the logits of row `index` of those are made of: hidden_size values after the last norm. Valid
  /// until the next forward().
  [[nodiscard]] std::span<const float> last_hidden(std::size_t index) const {
    return {last_.data() + index * config_.hidden_size, config_.hidden_size};
  }

 private:
  Model(ModelConfig config, kernels::Backend backend, int threads, kernels::Profile profile);
  /// The table covers more positions when they are first reached; no entry depends on its length.
  [[nodiscard]] Result<void> grow_rope(std::size_t positions);
  [[nodiscard]] const kernels::RopeTable& rope_of(std::size_t layer) const;
  void embed(std::span<const ForwardRow> rows);
  void attend(std::size_t layer, std::span<ForwardRow> rows);
  void normalize_heads(const LayerWeights& layer, std::size_t rows);
  void feed_forward(const FeedForward& weights, const float* x, std::size_t rows, float* out);
  void mix_experts(std::size_t layer, std::span<ForwardRow> pass, float* out);
  void normalize(const float* x, std::size_t rows, const std::vector<float>& weights, float* out);
  void multiply(const Linear& weights, const float* x, std::size_t rows, float* out);
  /// Digests what `stage` computed, for the rows that want it: row r is `width` values at x + r * stride.
  /// Reads alone. One comparison when no row of the pass is watched.
  void watch(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
             std::size_t width, std::size_t stride) {
    if (watched_) digest_rows(stage, rows, x, width, stride);
  }
  void digest_rows(const LayerStage& stage, std::span<const ForwardRow> rows, const float* x,
                   std::size_t width, std::size_t stride);
  /// Rows of hidden_size values.
  void watch(const LayerStage& stage, std::span<const ForwardRow> rows, const kernels::Scratch& x) {
    watch(stage, rows, x.data(), config_.hidden_size, config_.hidden_size);
  }
  void watch_projections(std::size_t layer, std::span<const ForwardRow> rows, Operator q,
                         Operator k);
  void watch_gates(std::size_t layer, std::span<const ForwardRow> rows);
  /// Null when the work is too small to be worth waking threads. The bits are the same either way.
  [[nodiscard]] kernels::ThreadPool* pool_for(std::size_t operations);
  /// body(r) for each row, shared out among threads: `operations` a row. A row writes what is its own alone.
  template <class Body>
  void each_row(std::size_t rows, std::size_t operations, const Body& body) {
    kernels::run_tasks(pool_for(rows * operations), rows, [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r) body(r);
    });
  }
  void add_branch(std::size_t rows);
  /// Marks the rows whose products left profile mma-hopper/1: what is not finite stays so down to the last residual.
  void mark_range(std::span<ForwardRow> rows);
  void rotate(std::size_t layer, std::size_t rows);

  ModelConfig config_;
  kernels::Backend backend_;
  kernels::Profile profile_;
  std::unique_ptr<kernels::ThreadPool> pool_;
  ModelWeights weights_;
  bool watches_files_ = false;
  bool watched_ = false;  // a row of this pass has digests
  /// Angles of one kind of layer.
  struct Rotation {
    std::vector<float> inverse_frequencies;
    double attention_factor = 1;
    kernels::RopeTable table;
  };
  [[nodiscard]] static Result<Rotation> make_rotation(const RopeConfig& rope, std::size_t dim);
  std::vector<Rotation> rotations_;  // the model's, then, if they have one, that of windowed layers
  kernels::AttentionShape attention_;
  std::unique_ptr<KvPool> kv_pool_;

  // Buffers of one pass, kept for the next. R: rows of the pass.
  kernels::Scratch x_;                  // (R, hidden): the residual stream
  kernels::Scratch normed_;             // (R, hidden)
  kernels::Scratch qkv_;                // (R, (heads + 2 kv_heads) * head_dim)
  kernels::Scratch attended_;           // (R, heads * head_dim)
  kernels::Scratch branch_;             // (R, hidden)
  kernels::Scratch gate_up_;            // (R, 2 * intermediate)
  kernels::Scratch gated_;              // (R, intermediate)
  kernels::Scratch last_;               // (rows that want logits, hidden)
  std::vector<std::size_t> positions_;  // (R)
};

}  // namespace verbatim::local_engine
