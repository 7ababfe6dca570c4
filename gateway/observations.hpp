#pragma once
// Hits that go upstream all the same: which, and how often the answer was still the canonical one.

#include "gateway/dialect.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// On the gateway's thread.
class Observations {
 public:
  enum class Result { same, different, incomparable };

  /// True for so many of a hundred calls, evenly spread: no chance is in it.
  [[nodiscard]] bool take_turn(std::uint32_t percent);
  void count(std::string_view model, Result result);

  struct Counts {
    std::uint64_t same = 0, different = 0, incomparable = 0;
  };
  /// By model; those beyond a number of names are counted as "other".
  [[nodiscard]] const std::map<std::string, Counts, std::less<>>& by_model() const {
    return by_model_;
  }

 private:
  static constexpr std::size_t kModelsMax = 100;
  std::uint32_t due_ = 0;  // hundredths of a turn
  std::map<std::string, Counts, std::less<>> by_model_;
};

[[nodiscard]] std::string_view observation_name(Observations::Result result);

/// What an answer says, without what differs between two equal answers (ids, times, fingerprints, usage): canonical
/// JSON of the whole answer. `body`: without a content coding. Absent if it is no JSON object, and no stream of one.
[[nodiscard]] std::optional<std::string> comparable_answer(Api api, bool stream,
                                                           std::string_view body);

}  // namespace verbatim::gateway
