#include "local_engine/files/tensor.hpp"

namespace verbatim::local_engine {

std::optional<std::uint64_t> checked_product(const std::vector<std::uint64_t>& shape) {
  std::uint64_t product = 1;
  for (const auto size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const auto size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

std::string printable(std::string_view text) {
  constexpr std::size_t kBytesMax = 80;
  std::string out;
  for (const char c : text.substr(0, kBytesMax)) out += c >= 0x20 && c < 0x7f ? c : '?';
  if (text.size() > kBytesMax) out += "...";
  return out;
}

}  // namespace verbatim::local_engine
