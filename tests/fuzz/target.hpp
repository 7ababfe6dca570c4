#pragma once
// A fuzz target: one parser that meets bytes from outside, and what it promises whatever they are.
//
// The same targets run in two ways (driver.cpp): everywhere on seeded mutations, and under clang's libFuzzer.

#include "schema/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::fuzz {

struct Target {
  const char* name;
  /// A promise that does not hold ends the process: VERBATIM_CHECK, or the sanitizers.
  void (*run)(std::string_view input);
  /// Small valid inputs, by which a mutation begins in the grammar.
  std::vector<std::string> (*seeds)();
  /// Words of the grammar that mutations may put in.
  std::vector<std::string> dictionary = {};
};

/// Adds a target to those that the program knows; one at file scope in each file.
class Registration {
 public:
  explicit Registration(Target target);
};

/// Takes the last byte off: a choice, so that what is before it keeps its form. 0 if there is none.
[[nodiscard]] inline std::uint8_t take_choice(std::string_view& input) {
  if (input.empty()) return 0;
  const char last = input.back();
  input.remove_suffix(1);
  return static_cast<std::uint8_t>(last);
}

/// Takes off what is before the first such byte, and the byte. All, if there is none.
[[nodiscard]] inline std::string_view take_part(std::string_view& input, char end = '\0') {
  const std::string_view part = input.substr(0, input.find(end));
  input.remove_prefix(std::min(input.size(), part.size() + 1));
  return part;
}

/// Calls `visit` with one piece of the text after another. `choice` says how it is cut: 0 into single bytes.
template <class Visit>
void in_pieces(std::string_view text, std::uint8_t choice, Visit visit) {
  std::uint32_t state = choice;
  while (!text.empty()) {
    state = state * 1'664'525 + 1'013'904'223;
    const std::size_t size = choice == 0 ? 1 : 1 + (state >> 16) % (choice < 128 ? 5 : 70);
    visit(text.substr(0, size));
    text.remove_prefix(std::min(size, text.size()));
  }
}

}  // namespace verbatim::fuzz
