#include "tests/gpu/emulation/shared_array.hpp"

#include "tests/gpu/emulation/schedule.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::emulation {

namespace {

constexpr std::uint32_t kNobody = 0xffffffff, kSeveral = 0xfffffffe;
constexpr std::size_t kBytesMax = std::size_t{48} << 10;  // that a block may declare

/// Last accesses of one element.
struct Shadow {
  bool written = false;
  Standing write{kNobody, 0, 0};
  Standing read{kNobody, 0, 0};       // thread: kSeveral when there were more since the barrier
  std::uint32_t read_warp = kNobody;  // kSeveral: of several warps
};

}  // namespace

class SharedStorage {
 public:
  SharedStorage(const char* array, std::size_t elements, std::size_t bytes, std::source_location at)
      : name(array),
        where(at),
        element_bytes(bytes),
        data((elements * bytes + 15) / 16),
        shadow(elements) {
    const std::uint32_t poison = schedule_in_use().poison;
    for (uint4& word : data) word = {poison, poison, poison, poison};
  }
  [[nodiscard]] void* element(std::size_t i) {
    return reinterpret_cast<std::byte*>(data.data()) + i * element_bytes;
  }
  [[nodiscard]] std::string text(std::size_t i) const {
    return std::string(name) + "[" + std::to_string(i) + "]";
  }

  const char* name;
  std::source_location where;
  std::size_t element_bytes;
  std::vector<uint4> data;  // for its alignment
  std::vector<Shadow> shadow;
};

namespace {

struct BlockMemory {
  std::uint64_t block = 0;
  std::size_t bytes = 0;
  std::vector<std::unique_ptr<SharedStorage>> arrays;
} memory;

void check_bounds(const SharedStorage& storage, std::size_t i, std::source_location where) {
  if (i < storage.shadow.size()) return;
  fault(storage.text(i) + " is outside of the array's " + std::to_string(storage.shadow.size()) +
            " elements",
        where);
}

/// Whether an access by `thread`, of warp `warp`, comes before what the caller does now.
bool ordered(const Standing& before, std::uint32_t warp, const Standing& now) {
  if (before.epoch < now.epoch || before.thread == now.thread) return true;
  return warp == now.thread / 32 && before.warp_epoch < now.warp_epoch;
}

}  // namespace

SharedStorage* shared_storage(const char* name, std::size_t count, std::size_t element_bytes,
                              std::source_location where) {
  if (memory.block != block_serial()) memory = {block_serial(), 0, {}};
  for (const auto& array : memory.arrays) {
    if (array->where.line() == where.line() && array->where.column() == where.column() &&
        std::strcmp(array->where.file_name(), where.file_name()) == 0) {
      return array.get();
    }
  }
  memory.bytes += (count * element_bytes + 15) / 16 * 16;
  if (memory.bytes > kBytesMax) {
    fault(std::string(name) + " brings the block's shared memory to " +
              std::to_string(memory.bytes) + " bytes",
          where);
  }
  memory.arrays.push_back(std::make_unique<SharedStorage>(name, count, element_bytes, where));
  return memory.arrays.back().get();
}

const void* checked_read(SharedStorage* storage, std::size_t i, std::source_location where) {
  check_bounds(*storage, i, where);
  Shadow& shadow = storage->shadow[i];
  const Standing now = standing();
  if (!shadow.written) fault(storage->text(i) + " is read, but was never written", where);
  if (!ordered(shadow.write, shadow.write.thread / 32, now)) {
    fault(storage->text(i) + " is read, but thread " + std::to_string(shadow.write.thread) +
              " wrote it with no barrier between",
          where);
  }
  if (shadow.read.thread == kNobody || shadow.read.epoch != now.epoch) {
    shadow.read = now;
    shadow.read_warp = now.thread / 32;
  } else if (shadow.read.thread != now.thread) {
    shadow.read.thread = kSeveral;
    shadow.read.warp_epoch = now.warp_epoch;
    if (shadow.read_warp != now.thread / 32) shadow.read_warp = kSeveral;
  } else {
    shadow.read = now;
  }
  return storage->element(i);
}

void* checked_write(SharedStorage* storage, std::size_t i, std::source_location where) {
  check_bounds(*storage, i, where);
  Shadow& shadow = storage->shadow[i];
  const Standing now = standing();
  if (shadow.written && !ordered(shadow.write, shadow.write.thread / 32, now)) {
    fault(storage->text(i) + " is written, but thread " + std::to_string(shadow.write.thread) +
              " wrote it with no barrier between",
          where);
  }
  if (shadow.read.thread != kNobody && !ordered(shadow.read, shadow.read_warp, now)) {
    fault(storage->text(i) + " is written, but " +
              (shadow.read.thread == kSeveral ? "others"
                                              : "thread " + std::to_string(shadow.read.thread)) +
              " read it with no barrier between",
          where);
  }
  shadow.written = true;
  shadow.write = now;
  return storage->element(i);
}

void check_aligned(const SharedStorage* storage, std::size_t i, std::size_t elements,
                   std::source_location where) {
  if (i % elements == 0) return;
  fault(storage->text(i) + " begins a vector of " + std::to_string(elements) +
            " elements, but is not aligned for it",
        where);
}

}  // namespace verbatim::emulation
