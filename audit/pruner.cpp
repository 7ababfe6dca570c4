#include "audit/pruner.hpp"

#include "audit/erasure.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::size_t kLeavesAtOnce = 256;

}  // namespace

Result<void> Pruner::load() {
  auto pruned = read_pruned(writer_.store().queries(), writer_.size());
  if (!pruned) return pruned.error();
  pruned_ = std::move(*pruned);
  return {};
}

Result<Appended> Pruner::begin(const PrunePlan& plan, const LeafDraft& asked, const Uuid& id,
                               std::int64_t now_us) {
  const auto holds = active_holds(writer_.store().queries());
  if (!holds) return holds.error();
  std::vector<std::uint64_t> now;
  for (const Hold& hold : *holds) now.push_back(hold.index);
  if (auto loaded = load(); !loaded) return loaded.error();
  if (now != plan.holds || pruned_.minimum_index != plan.before.minimum_index) {
    return Error{Errc::unavailable, "the legal holds changed, or somebody else pruned, meanwhile",
                 "", "ask again"};
  }
  // The cache is no evidence: first, so that it never leads to what is gone.
  if (auto gone = writer_.store().forget_canonical_below(plan.minimum_index); !gone) {
    return gone.error();
  }
  LeafDraft leaf;
  leaf.type = "prune";
  leaf.fields = prune_fields(plan, asked);
  const auto appended = writer_.write(std::move(leaf), id, now_us);
  if (!appended) return appended;
  if (auto loaded = load(); !loaded) return loaded.error();
  return appended;
}

Result<bool> Pruner::step() {
  std::vector<std::uint64_t> leaves;
  const auto read =
      writer_.store().queries().not_pruned(next_, pruned_.minimum_index, [&](std::uint64_t index) {
        next_ = index + 1;
        if (pruned_.covers(index)) leaves.push_back(index);
        return leaves.size() < kLeavesAtOnce;
      });
  if (!read) return read.error();
  if (leaves.empty()) return false;
  const auto gone = writer_.store().prune(leaves);
  if (!gone) {
    if (gone.error().code == Errc::in_doubt) writer_.stop();
    return gone.error();
  }
  return true;
}

Result<void> Pruner::finish_interrupted() {
  if (auto loaded = load(); !loaded) return loaded;
  std::uint64_t last = pruned_.minimum_index;
  while (last > 0 && pruned_.kept.contains(last - 1)) --last;
  if (last == 0) return {};
  // They go in order: once the last is gone, all are.
  const auto there = writer_.store().queries().leaf(last - 1);
  if (!there && there.error().code == Errc::erased) return {};
  for (;;) {
    const auto more = step();
    if (!more) return more.error();
    if (!*more) return {};
  }
}

}  // namespace verbatim::audit
