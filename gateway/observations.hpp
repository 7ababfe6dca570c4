#pragma once
// Hits that go upstream all the same: which, and how often the answer was still the canonical one.

#include "gateway/dialect.hpp"
#include "gateway/normal_form.hpp"

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

  /// How an answer compares with the canonical one: as it is, and in a normal form, where one is asked for.
  struct Comparison {
    Result result = Result::incomparable;
    NormalForm form;
    Result normal_result = Result::incomparable;  ///< as result where form is empty
    /// Of both answers, as comparable_answer() has them: JSON, `{"answer":{"normal_sha256","sha256"},"canonical":{..}}`,
    /// without `normal_sha256` where form is empty. "" if they cannot be compared.
    std::string digests;
  };

  /// True for so many of a hundred calls, evenly spread: no chance is in it.
  [[nodiscard]] bool take_turn(std::uint32_t percent);
  void count(std::string_view model, const Comparison& comparison);

  struct Counts {
    std::uint64_t same = 0, different = 0, incomparable = 0;
    /// Of those that were compared in a normal form too.
    std::uint64_t normal_same = 0, normal_different = 0, normal_incomparable = 0;
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
/// JSON of the whole answer, in which integers of up to 64 bits are exact.
struct ComparableAnswer {
  std::string raw;
  std::string normal;  ///< with each of its texts in the normal form
};
/// `body`: without a content coding. Absent if it is no JSON object, and no stream of one.
[[nodiscard]] std::optional<ComparableAnswer> comparable_answer(Api api, bool stream,
                                                                std::string_view body,
                                                                const NormalForm& form = {});

/// Where either is absent they are incomparable.
[[nodiscard]] Observations::Comparison compare_answers(
    const std::optional<ComparableAnswer>& canonical, const std::optional<ComparableAnswer>& answer,
    const NormalForm& form);

}  // namespace verbatim::gateway
