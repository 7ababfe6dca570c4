#include "tests/fuzz/mutator.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace verbatim::fuzz {

namespace {

constexpr std::size_t kBytesMax = 1 << 16;

}  // namespace

std::string Mutator::next() {
  if (seeds_.empty()) return "";
  std::string text = seeds_[random_.below(seeds_.size())];
  if (random_.below(8) == 0) {
    const std::string& other = seeds_[random_.below(seeds_.size())];
    text.resize(random_.below(text.size() + 1));
    text += other.substr(random_.below(other.size() + 1));
  }
  const std::size_t changes = 1 + random_.below(4);
  for (std::size_t i = 0; i < changes; ++i) change(text);
  if (text.size() > kBytesMax) text.resize(kBytesMax);
  return text;
}

/// Decimal, or binary of one to eight bytes in either order.
std::string Mutator::number() {
  static constexpr std::array<std::uint64_t, 14> kBounds = {
      0,          1,          2,          0x7f,       0x80,       0xff,
      0xffff,     0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32, (1ULL << 53) + 1,
      1ULL << 63, ~0ULL};
  const std::uint64_t value = kBounds[random_.below(kBounds.size())];
  switch (random_.below(3)) {
    case 0:
      return std::to_string(value);
    case 1:
      return "-" + std::to_string(value);
    default: {
      std::string bytes;
      const std::size_t size = std::size_t{1} << random_.below(4);
      for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
      if (random_.below(2) == 0) std::reverse(bytes.begin(), bytes.end());
      return bytes;
    }
  }
}

void Mutator::change(std::string& text) {
  const std::size_t at = random_.below(text.size() + 1);
  const std::size_t left = text.size() - at;
  const std::size_t length = std::min(left, 1 + random_.below(random_.below(4) == 0 ? 200 : 8));
  switch (random_.below(9)) {
    case 0:
      if (left > 0) text[at] = static_cast<char>(random_.next());
      return;
    case 1:
      if (left > 0) text[at] = static_cast<char>(text[at] ^ (1 << random_.below(8)));
      return;
    case 2:
      if (random_.below(4) == 0) text.resize(at);
      return;
    case 3:
      text.erase(at, length);
      return;
    case 4:
      text.insert(at, text.substr(at, length));
      return;
    case 5:
      text.insert(at, std::string(1 + random_.below(300), static_cast<char>(random_.next())));
      return;
    case 6:
      text.replace(at, random_.below(length + 1), number());
      return;
    case 7: {
      const std::string& other = seeds_[random_.below(seeds_.size())];
      text.insert(at, other.substr(random_.below(other.size() + 1), 1 + random_.below(60)));
      return;
    }
    default:
      if (!words_.empty()) {
        text.replace(at, random_.below(2) == 0 ? 0 : length, words_[random_.below(words_.size())]);
      }
  }
}

}  // namespace verbatim::fuzz
