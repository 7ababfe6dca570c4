#pragma once
// Mutations of seeds, always the same: for where no libFuzzer is.

#include "tests/support/tiny_model.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::fuzz {

/// Makes inputs out of seeds: changed bytes, runs, cuts, copies, integers at their bounds, words of the dictionary, and
/// the beginning of one seed with the end of another.
class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words)
      : seeds_(std::move(seeds)), words_(std::move(words)) {}

  [[nodiscard]] std::string next();

 private:
  void change(std::string& text);
  [[nodiscard]] std::string number();

  std::vector<std::string> seeds_, words_;
  test::TinyRandom random_{1};
};

}  // namespace verbatim::fuzz
