#pragma once
// Writes small GGUF metadata for tests: just the format, no checks, so that tests can also write nonsense.

#include "local_engine/text/gguf_metadata.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::test {

class GgufWriter {
 public:
  void number(std::uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) body_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void string(std::string_view text) {
    number(text.size(), 8);
    body_ += text;
  }
  void key(std::string_view name, local_engine::GgufType type) {
    ++count_;
    string(name);
    number(static_cast<std::uint64_t>(type), 4);
  }
  void u32(std::string_view name, std::uint32_t value) {
    key(name, local_engine::GgufType::u32);
    number(value, 4);
  }
  void boolean(std::string_view name, bool value) {
    key(name, local_engine::GgufType::boolean);
    number(value ? 1 : 0, 1);
  }
  void text(std::string_view name, std::string_view value) {
    key(name, local_engine::GgufType::string);
    string(value);
  }
  void texts(std::string_view name, const std::vector<std::string>& values) {
    array(name, local_engine::GgufType::string, values.size());
    for (const std::string& value : values) string(value);
  }
  void floats(std::string_view name, const std::vector<float>& values) {
    array(name, local_engine::GgufType::f32, values.size());
    for (const float value : values) number(std::bit_cast<std::uint32_t>(value), 4);
  }
  void integers(std::string_view name, const std::vector<std::int32_t>& values) {
    array(name, local_engine::GgufType::i32, values.size());
    for (const std::int32_t value : values) number(static_cast<std::uint32_t>(value), 4);
  }
  void array(std::string_view name, local_engine::GgufType element, std::uint64_t size) {
    key(name, local_engine::GgufType::array);
    number(static_cast<std::uint64_t>(element), 4);
    number(size, 8);
  }
  /// The whole file, with no tensors.
  [[nodiscard]] std::string file(std::uint32_t version = 3) const {
    GgufWriter head;
    head.body_ = "GGUF";
    head.number(version, 4);
    head.number(0, 8);
    head.number(count_, 8);
    return head.body_ + body_;
  }

 private:
  std::string body_;
  std::uint64_t count_ = 0;
};

}  // namespace verbatim::test
