#pragma once
// Digests of what a forward pass computes on its way, by layer and operator: two engines that should
// agree and do not are taken back to the first operator that gave another result.
// Format: schema/layer-digests.md.

#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// What is digested, in the order of computation. In a layer with experts, `gate` to `down` are the
/// values of all experts that the row chose, in rank order.
enum class Operator : std::uint8_t {
  embedding,               ///< the token's row, scaled where the model scales it
  attention_norm,          ///< what goes into the projections
  q,                       ///< projections, with their biases
  k,                       //
  v,                       //
  q_norm,                  ///< where the model normalizes them
  k_norm,                  //
  q_rotated,               ///< after RoPE
  k_rotated,               //
  attention,               ///< of all heads, before the output's projection
  attention_output,        ///< the output's projection
  attention_post_norm,     ///< where the model normalizes the branch
  attention_residual,      ///< the residual stream after the attention
  feed_forward_norm,       ///< what goes into the feed-forward network
  router,                  ///< logits of the experts
  gate,                    //
  up,                      //
  gated,                   ///< activation(gate) * up
  down,                    //
  mixture,                 ///< weighted sum of the experts
  feed_forward_post_norm,  ///< where the model normalizes the branch
  feed_forward_residual,   ///< the residual stream after the layer
  final_norm,              ///< of rows that chose a token
  logits,                  ///< of those; the row digest of numerics.md section 7
};

/// "attention_residual".
[[nodiscard]] std::string_view operator_name(Operator op);

/// How much is digested.
enum class LayerDetail : std::uint8_t {
  none,
  residual,   ///< embedding, the residual stream after attention and after each layer, norm, logits
  operators,  ///< all of them
};

/// An operator of a layer. Stages compare in the order of computation.
struct LayerStage {
  static constexpr std::size_t kAfterLayers = SIZE_MAX;
  std::size_t layer = 0;  ///< 0 for the embedding, kAfterLayers for the last norm and the logits
  Operator op = Operator::embedding;

  [[nodiscard]] bool in_a_layer() const {
    return op != Operator::embedding && op < Operator::final_norm;
  }
  /// "layer 3, q"; "embedding".
  [[nodiscard]] std::string str() const;
  friend auto operator<=>(const LayerStage&, const LayerStage&) = default;
};

/// The first 8 bytes of a SHA-256.
using Digest8 = std::array<std::uint8_t, 8>;

/// The first 8 bytes of the SHA-256 of the values as f32, little-endian, in ascending order. The
/// bits as they are: -0 and +0 differ.
[[nodiscard]] Digest8 values_digest(std::span<const float> values);

/// Of one sequence. 64 bits tell accident apart, and are no proof against somebody who searches: what
/// proves an answer is the digest of its logits.
class LayerDigests {
 public:
  explicit LayerDigests(LayerDetail detail) : detail_(detail) {}

  [[nodiscard]] LayerDetail detail() const { return detail_; }
  [[nodiscard]] bool wants(Operator op) const;
  /// The next position of `stage`. Positions of a stage come one after another, and end together.
  void add(const LayerStage& stage, std::size_t position, const Digest8& digest);

  /// Of one stage. `digests` are of blocks of block() positions, cut at absolute multiples; of one
  /// position: its digest; of more: the first 8 bytes of the SHA-256 of their digests. The first and the
  /// last block may be cut short.
  struct Stage {
    std::size_t first =
        0;  ///< position with which it begins: later ones than 0 for norm and logits
    std::vector<Digest8> digests;
    friend bool operator==(const Stage&, const Stage&) = default;
  };
  [[nodiscard]] const std::map<LayerStage, Stage>& stages() const { return stages_; }
  [[nodiscard]] std::size_t positions() const { return positions_; }
  [[nodiscard]] std::size_t block() const { return block_; }
  [[nodiscard]] std::size_t layers() const;
  [[nodiscard]] std::size_t bytes() const;  ///< of all digests

  /// The same in blocks of `block` positions. Requires block() == 1.
  [[nodiscard]] LayerDigests in_blocks(std::size_t block) const;
  /// In the smallest blocks, 1, 2, 4, ..., of which all digests have at most `bytes_max` bytes; nothing
  /// if not even one block a stage has. Requires block() == 1.
  [[nodiscard]] std::optional<LayerDigests> within(std::size_t bytes_max) const;

  /// {"detail","positions","block","stages":[{"layer","operator","first","digests"}]}.
  [[nodiscard]] Json json() const;
  /// `invalid_input` says what is wrong.
  [[nodiscard]] static Result<LayerDigests> from_json(const Json& json);

 private:
  LayerDetail detail_;
  std::size_t positions_ = 0, block_ = 1;
  std::map<LayerStage, Stage> stages_;
};

/// One operator that gave another result although its inputs were equal.
struct LayerCause {
  LayerStage stage;
  std::size_t position = 0, last_position = 0;  ///< its first block; both the same if it is of one
  std::size_t blocks = 0;                       ///< in how many it shows
};

struct LayerComparison {
  std::size_t stages = 0, positions = 0;  ///< that both have, and that were compared
  /// The first in the order of decoding: by position, then by stage. None: no difference.
  std::optional<LayerCause> first;
  /// All, in the order of computation; `first` is one of them. What merely follows from an earlier
  /// difference, at the same position or by attention to an earlier one, is none.
  std::vector<LayerCause> causes;
};

/// Compares the stages that both have, at positions below `positions_max`. Both saw the same tokens
/// there. `invalid_input` when they cannot be compared: other layers, no stage in common, or blocks that do
/// not fit each other (equal, or one of them 1).
[[nodiscard]] Result<LayerComparison> compare_layers(const LayerDigests& a, const LayerDigests& b,
                                                     std::size_t positions_max = SIZE_MAX);

}  // namespace verbatim::local_engine
