#pragma once
// A hash map from 64-bit keys to small values: open addressing, linear probing, no erasure.
//
// The merge tables of a tokenizer are looked up several times a character; std::unordered_map's chains
// cost a cache miss each.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbatim::local_engine {

template <class Value>
class FlatMap {
 public:
  /// Inserts or overwrites. `key` must not be kEmpty.
  void set(std::uint64_t key, const Value& value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[place(key)];
    if (slot.key == kEmpty) {
      slot.key = key;
      ++size_;
    }
    slot.value = value;
  }

  /// Null when absent. Valid until the next set().
  [[nodiscard]] const Value* find(std::uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  [[nodiscard]] std::size_t place(std::uint64_t key) const {
    std::uint64_t mixed = key;
    mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93U;
    mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93U;
    mixed ^= mixed >> 32;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mixed & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  std::size_t size_ = 0;
};

}  // namespace verbatim::local_engine
