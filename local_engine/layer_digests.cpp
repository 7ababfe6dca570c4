#include "local_engine/layer_digests.hpp"

#include "schema/digest.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace verbatim::local_engine {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are of little-endian values");

constexpr std::array<std::string_view, 24> kNames = {"embedding",
                                                     "attention_norm",
                                                     "q",
                                                     "k",
                                                     "v",
                                                     "q_norm",
                                                     "k_norm",
                                                     "q_rotated",
                                                     "k_rotated",
                                                     "attention",
                                                     "attention_output",
                                                     "attention_post_norm",
                                                     "attention_residual",
                                                     "feed_forward_norm",
                                                     "router",
                                                     "gate",
                                                     "up",
                                                     "gated",
                                                     "down",
                                                     "mixture",
                                                     "feed_forward_post_norm",
                                                     "feed_forward_residual",
                                                     "final_norm",
                                                     "logits"};
static_assert(static_cast<std::size_t>(Operator::logits) + 1 == kNames.size());

// Far beyond any model and context: what says more was not written by an engine.
constexpr std::size_t kLayersMax = 1 << 16, kPositionsMax = std::size_t{1} << 32;

Digest8 first_bytes(const Digest& digest) {
  Digest8 first{};
  std::copy_n(digest.bytes.begin(), first.size(), first.begin());
  return first;
}

bool is_residual(Operator op) {
  return op == Operator::embedding || op == Operator::attention_residual ||
         op == Operator::feed_forward_residual || op >= Operator::final_norm;
}

std::size_t block_count(std::size_t first, std::size_t end, std::size_t block) {
  return first >= end ? 0 : (end + block - 1) / block - first / block;
}

Error malformed(std::string what) {
  return {Errc::invalid_input, std::move(what), "layer digests", ""};
}

/// A whole number from 0 to `max`.
std::optional<std::size_t> number_at(const Json& json, const char* name, std::size_t max) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  return value <= max ? std::optional<std::size_t>(value) : std::nullopt;
}

std::string string_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<LayerStage> stage_of(const Json& json) {
  const auto name = std::find(kNames.begin(), kNames.end(), string_at(json, "operator"));
  if (name == kNames.end()) return malformed("an operator is not known");
  LayerStage stage;
  stage.op = static_cast<Operator>(name - kNames.begin());
  if (stage.op >= Operator::final_norm) stage.layer = LayerStage::kAfterLayers;
  if (!stage.in_a_layer()) {
    if (json.contains("layer")) return malformed(std::string(*name) + " is in no layer");
    return stage;
  }
  const auto layer = number_at(json, "layer", kLayersMax);
  if (!layer) return malformed(std::string(*name) + " has no proper layer");
  stage.layer = *layer;
  return stage;
}

}  // namespace

std::string_view operator_name(Operator op) { return kNames.at(static_cast<std::size_t>(op)); }

std::string LayerStage::str() const {
  const std::string name(operator_name(op));
  return in_a_layer() ? "layer " + std::to_string(layer) + ", " + name : name;
}

Digest8 values_digest(std::span<const float> values) {
  return first_bytes(
      sha256(Bytes(reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes())));
}

bool LayerDigests::wants(Operator op) const {
  return detail_ == LayerDetail::operators || (detail_ == LayerDetail::residual && is_residual(op));
}

void LayerDigests::add(const LayerStage& stage, std::size_t position, const Digest8& digest) {
  VERBATIM_CHECK(block_ == 1);
  const auto [found, is_new] = stages_.try_emplace(stage);
  Stage& of = found->second;
  if (is_new) of.first = position;
  VERBATIM_CHECK(of.first + of.digests.size() == position);
  of.digests.push_back(digest);
  positions_ = std::max(positions_, position + 1);
}

std::size_t LayerDigests::layers() const {
  std::size_t count = 0;
  for (const auto& [stage, unused] : stages_) {
    if (stage.in_a_layer()) count = std::max(count, stage.layer + 1);
  }
  return count;
}

std::size_t LayerDigests::bytes() const {
  std::size_t count = 0;
  for (const auto& [unused, stage] : stages_) count += stage.digests.size();
  return count * sizeof(Digest8);
}

LayerDigests LayerDigests::in_blocks(std::size_t block) const {
  VERBATIM_CHECK(block_ == 1 && block > 0);
  if (block == 1) return *this;
  LayerDigests out(detail_);
  out.positions_ = positions_;
  out.block_ = block;
  for (const auto& [id, stage] : stages_) {
    Stage& to = out.stages_[id];
    to.first = stage.first;
    const std::size_t end = stage.first + stage.digests.size();
    for (std::size_t begin = stage.first; begin < end;) {
      const std::size_t next = std::min(end, (begin / block + 1) * block);
      Sha256 sum;
      for (; begin < next; ++begin) sum.update(Bytes(stage.digests[begin - stage.first]));
      to.digests.push_back(first_bytes(sum.finish()));
    }
  }
  return out;
}

std::optional<LayerDigests> LayerDigests::within(std::size_t bytes_max) const {
  for (std::size_t block = 1;; block *= 2) {
    std::size_t count = 0;
    for (const auto& [unused, stage] : stages_)
      count += block_count(stage.first, stage.first + stage.digests.size(), block);
    if (count * sizeof(Digest8) <= bytes_max) return in_blocks(block);
    if (block >= positions_) return std::nullopt;
  }
}

Json LayerDigests::json() const {
  Json out = {{"detail", detail_ == LayerDetail::operators ? "operators" : "residual"},
              {"positions", positions_},
              {"block", block_},
              {"stages", Json::array()}};
  for (const auto& [id, stage] : stages_) {
    std::string hex;
    for (const Digest8& digest : stage.digests) hex += to_hex(digest);
    Json each = {
        {"operator", operator_name(id.op)}, {"first", stage.first}, {"digests", std::move(hex)}};
    if (id.in_a_layer()) each["layer"] = id.layer;
    out["stages"].push_back(std::move(each));
  }
  return out;
}

Result<LayerDigests> LayerDigests::from_json(const Json& json) {
  if (!json.is_object()) return malformed("not an object");
  const std::string detail = string_at(json, "detail");
  if (detail != "residual" && detail != "operators") return malformed("the detail is not known");
  LayerDigests out(detail == "operators" ? LayerDetail::operators : LayerDetail::residual);
  const auto positions = number_at(json, "positions", kPositionsMax);
  const auto block = number_at(json, "block", kPositionsMax);
  if (!positions || !block || *block == 0) return malformed("no proper positions or block");
  out.positions_ = *positions;
  out.block_ = *block;
  const auto stages = json.find("stages");
  if (stages == json.end() || !stages->is_array()) return malformed("no stages");
  for (const Json& each : *stages) {
    if (!each.is_object()) return malformed("a stage is not an object");
    const auto id = stage_of(each);
    if (!id) return id.error();
    const auto first = number_at(each, "first", *positions);
    const auto bytes = from_hex(string_at(each, "digests"));
    if (!first || !bytes ||
        bytes->size() != block_count(*first, *positions, *block) * sizeof(Digest8)) {
      return malformed(id->str() + " does not have the digests of its positions");
    }
    Stage stage;
    stage.first = *first;
    stage.digests.resize(bytes->size() / sizeof(Digest8));
    for (std::size_t i = 0; i < stage.digests.size(); ++i)
      std::copy_n(bytes->begin() + static_cast<std::ptrdiff_t>(i * sizeof(Digest8)),
                  sizeof(Digest8), stage.digests[i].begin());
    if (!out.stages_.emplace(*id, std::move(stage)).second)
      return malformed(id->str() + " is there twice");
  }
  return out;
}

namespace {

using Stages = std::map<LayerStage, LayerDigests::Stage>;

/// A stage that both have.
struct Pair {
  LayerStage id;
  const LayerDigests::Stage* a;
  const LayerDigests::Stage* b;
};

/// Does the stage differ in the block with this number? One that has not begun does not.
bool differs(const Pair& pair, std::size_t block_number, std::size_t block) {
  const std::size_t before = pair.a->first / block;
  if (block_number < before) return false;
  const std::size_t at = block_number - before;
  return at < std::min(pair.a->digests.size(), pair.b->digests.size()) &&
         pair.a->digests[at] != pair.b->digests[at];
}

}  // namespace

Result<LayerComparison> compare_layers(const LayerDigests& a, const LayerDigests& b,
                                       std::size_t positions_max) {
  if (a.block() != b.block()) {
    if (a.block() == 1) return compare_layers(a.in_blocks(b.block()), b, positions_max);
    if (b.block() == 1) return compare_layers(a, b.in_blocks(a.block()), positions_max);
    return Error{Errc::invalid_input,
                 "digests of blocks of " + std::to_string(a.block()) + " and of " +
                     std::to_string(b.block()) + " positions do not fit each other",
                 "layer digests", "compare with digests of single positions"};
  }
  if (a.layers() != b.layers()) {
    return Error{Errc::invalid_input,
                 "one model has " + std::to_string(a.layers()) + " layers, the other " +
                     std::to_string(b.layers()),
                 "layer digests", "compare models of one shape"};
  }
  // 1. What both have, up to where both go. A block that is cut short in one of them alone is left out.
  const std::size_t block = a.block();
  std::size_t blocks = std::min({a.positions(), b.positions(), positions_max}) / block;
  if (a.positions() == b.positions() && a.positions() <= positions_max)
    blocks = block_count(0, a.positions(), block);
  std::vector<Pair> pairs;
  bool has_attention = false;
  for (const auto& [id, stage] : a.stages()) {
    const auto other = b.stages().find(id);
    if (other == b.stages().end() || other->second.first != stage.first) continue;
    pairs.push_back({id, &stage, &other->second});
    has_attention = has_attention || id.op == Operator::attention;
  }
  if (pairs.empty())
    return Error{Errc::invalid_input, "the two have no stage in common", "layer digests", ""};

  // 2. At each position the first stage that differs had equal inputs, unless it attends to an earlier
  //    position that differs in an earlier stage: then it may merely follow from that.
  const Operator reads_others = has_attention ? Operator::attention : Operator::attention_residual;
  LayerComparison found;
  found.stages = pairs.size();
  found.positions = std::min(blocks * block, a.positions());
  std::map<LayerStage, LayerCause> causes;
  std::optional<LayerStage> lowest;
  for (std::size_t at = 0; at < blocks; ++at) {
    const auto first = std::find_if(pairs.begin(), pairs.end(),
                                    [&](const Pair& pair) { return differs(pair, at, block); });
    if (first == pairs.end()) continue;
    const bool follows = first->id.op == reads_others && lowest && *lowest < first->id;
    if (!lowest || first->id < *lowest) lowest = first->id;
    if (follows) continue;
    const std::size_t last = std::min((at + 1) * block, a.positions()) - 1;
    LayerCause& cause =
        causes.try_emplace(first->id, LayerCause{first->id, at * block, last, 0}).first->second;
    ++cause.blocks;
    if (!found.first) found.first = cause;
  }
  for (const auto& [unused, cause] : causes) found.causes.push_back(cause);
  if (found.first) found.first->blocks = causes.at(found.first->stage).blocks;
  return found;
}

}  // namespace verbatim::local_engine
