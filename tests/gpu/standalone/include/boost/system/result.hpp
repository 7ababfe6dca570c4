#pragma once
// As much of Boost's result as the kernels use, for a machine without Boost. See ../../../../CMakeLists.txt.

#include <optional>
#include <utility>
#include <variant>

namespace boost {
struct source_location {};

namespace system {

template <class T, class E>
class result {
 public:
  result(T value) : held_(std::move(value)) {}
  result(E error) : held_(std::move(error)) {}
  [[nodiscard]] bool has_value() const { return held_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const E& error() const { return std::get<1>(held_); }
  [[nodiscard]] T& operator*() { return std::get<0>(held_); }
  [[nodiscard]] T* operator->() { return &std::get<0>(held_); }
  [[nodiscard]] T value() {
    if (!has_value()) throw_exception_from_error(error(), source_location{});
    return std::move(std::get<0>(held_));
  }

 private:
  std::variant<T, E> held_;
};

}  // namespace system
}  // namespace boost
