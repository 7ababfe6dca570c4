#include "replay/calibration.hpp"

#include "replay/recorded.hpp"
#include "replay/verdict.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace verbatim::replay {

namespace {

/// k = ceil((1 - alpha/2)(n + 1)): the limit is the k-th smallest of n values. Nothing if n is too small for it.
std::optional<std::size_t> rank_of_limit(std::size_t n, double alpha) {
  // A hair less, so that 0.995 * 200 is 199 and not, by rounding, 200.
  const double k = std::ceil((1 - alpha / 2) * (static_cast<double>(n) + 1) - 1e-9);
  if (!(k >= 1) || k > static_cast<double>(n)) return std::nullopt;
  return static_cast<std::size_t>(k);
}

template <class Number>
std::optional<Number> limit(std::vector<Number> values, double alpha) {
  const auto k = rank_of_limit(values.size(), alpha);
  if (!k) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[*k - 1];
}

std::string records_needed(double alpha) {
  return ecmascript_number(std::ceil(2 / alpha - 1 - 1e-9));
}

double share(std::size_t count, std::size_t of) {
  return of == 0 ? 0 : static_cast<double>(count) / static_cast<double>(of);
}

/// Beyond it canonical JSON writes no integer.
constexpr std::size_t kCountMax = std::size_t{1} << 53;

Error no_number(const std::string& name) {
  return {Errc::invalid_input, "'" + name + "' is missing, or no such number", "calibration",
          "make it with `verbatim replay calibrate`"};
}

template <class Number>
Result<Number> number_member(const Json& json, const char* name) {
  const std::string text = text_at(json, {name});
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
      !std::isfinite(value)) {
    return no_number(name);
  }
  return value;
}

/// Why no honest answers give such figures; "" if they may.
std::string impossible(const Calibration& figures) {
  if (!(figures.alpha > 0 && figures.alpha < 1)) return "the rate is not between 0 and 1";
  if (figures.share_max > 1) return "the share is more than 1";
  if (figures.tokens == 0) return "there are no tokens";
  if (figures.differing > figures.tokens) return "more tokens differ than there are";
  const auto rank = rank_of_limit(figures.records, figures.alpha);
  if (!rank) {
    return "a rate of " + ecmascript_number(figures.alpha) + " takes " +
           records_needed(figures.alpha) + " records, not " + std::to_string(figures.records);
  }
  // As many records reach a limit as are not below it, and each that reaches one above 0 has a token that differs.
  const std::size_t at_limit = figures.records - *rank + 1;
  if ((figures.threshold > 0 || figures.share_max > 0) && figures.differing < at_limit) {
    return "with limits above 0, those that differ are at least " + std::to_string(at_limit) +
           ", not " + std::to_string(figures.differing);
  }
  if (figures.threshold > 0 && figures.share_max == 0)
    return "tokens are as far off as the threshold, but none may differ";
  return "";
}

}  // namespace

Result<Calibration> calibrate(const std::vector<ForeignScore>& honest, double alpha) {
  Calibration calibration;
  calibration.alpha = alpha;
  std::vector<float> deficits;
  std::vector<double> shares;
  for (const ForeignScore& score : honest) {
    calibration.tokens += score.deficits.size();
    calibration.differing += score.differing;
    deficits.push_back(score.deficit_max());
    shares.push_back(share(score.differing, score.deficits.size()));
  }
  calibration.records = honest.size();
  if (calibration.tokens == 0 && !honest.empty()) {
    return Error{Errc::invalid_input, "the honest answers hold no token", "",
                 "record answers that say something"};
  }
  const auto threshold = limit(deficits, alpha);
  const auto share_max = limit(shares, alpha);
  if (!threshold || !share_max) {
    return Error{Errc::invalid_input,
                 std::to_string(honest.size()) + " honest records are too few for a rate of " +
                     ecmascript_number(alpha),
                 "", "record at least " + records_needed(alpha) + ", or give a higher --rate"};
  }
  calibration.threshold = *threshold;
  calibration.share_max = *share_max;
  return calibration;
}

bool within(const Calibration& calibration, float deficit_max, std::size_t differing,
            std::size_t tokens) {
  return deficit_max <= calibration.threshold && share(differing, tokens) <= calibration.share_max;
}

Detection detect(const Calibration& calibration, std::string name,
                 const std::vector<ForeignScore>& scores) {
  Detection detection;
  detection.name = std::move(name);
  detection.records = scores.size();
  std::size_t beyond = 0, records = 0;
  for (const ForeignScore& score : scores) {
    detection.tokens += score.deficits.size();
    for (const float deficit : score.deficits) beyond += deficit > calibration.threshold ? 1 : 0;
    const bool inside =
        within(calibration, score.deficit_max(), score.differing, score.deficits.size());
    records += inside ? 0 : 1;
  }
  detection.beyond = wilson(beyond, detection.tokens);
  detection.records_beyond = wilson(records, scores.size());
  if (beyond == detection.tokens && beyond > 0) {
    detection.tokens_needed = 1;
  } else if (beyond > 0) {
    detection.tokens_needed =
        static_cast<std::size_t>(std::ceil(std::log(0.05) / std::log1p(-detection.beyond.share)));
  }
  return detection;
}

std::string calibration_text(const Calibration& calibration) {
  return canonical({{"v", 1},
                    {"type", "verbatim_calibration"},
                    {"model", calibration.model},
                    {"profile", calibration.profile},
                    {"weights_sha256", calibration.weights_sha256},
                    {"records", calibration.records},
                    {"tokens", calibration.tokens},
                    {"differing", calibration.differing},
                    {"false_positive_rate", ecmascript_number(calibration.alpha)},
                    {"threshold", decimal(calibration.threshold)},
                    {"share_max", ecmascript_number(calibration.share_max)}});
}

Result<Calibration> parse_calibration(std::string_view text) {
  const auto json = parse_json(text);
  if (!json || text_at(*json, {"type"}) != "verbatim_calibration" ||
      json->value("v", Json()) != 1) {
    return Error{Errc::invalid_input, "this is no calibration of version 1", "--calibration",
                 "make it with `verbatim replay calibrate`"};
  }
  Calibration calibration;
  calibration.model = text_at(*json, {"model"});
  calibration.profile = text_at(*json, {"profile"});
  calibration.weights_sha256 = text_at(*json, {"weights_sha256"});
  const auto alpha = number_member<double>(*json, "false_positive_rate");
  if (!alpha) return alpha.error();
  const auto threshold = number_member<float>(*json, "threshold");
  if (!threshold) return threshold.error();
  const auto share_max = number_member<double>(*json, "share_max");
  if (!share_max) return share_max.error();
  calibration.alpha = *alpha;
  calibration.threshold = *threshold;
  calibration.share_max = *share_max;
  for (const auto& [name, to] :
       {std::pair("records", &calibration.records), std::pair("tokens", &calibration.tokens),
        std::pair("differing", &calibration.differing)}) {
    const Json value = json->value(name, Json());
    *to = value.is_number_unsigned() ? value.get<std::size_t>() : SIZE_MAX;
    if (*to > kCountMax) return no_number(name);
  }
  if (const std::string fault = impossible(calibration); !fault.empty()) {
    return Error{Errc::invalid_input, "this calibration has figures that no answers give: " + fault,
                 "--calibration", "make it with `verbatim replay calibrate`"};
  }
  return calibration;
}

}  // namespace verbatim::replay
