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

/// The k-th smallest value, k = ceil((1 - alpha/2)(n + 1)); nothing if n is too small for it.
template <class Number>
std::optional<Number> limit(std::vector<Number> values, double alpha) {
  const auto n = static_cast<double>(values.size());
  // A hair less, so that 0.995 * 200 is 199 and not, by rounding, 200.
  const auto k = static_cast<std::size_t>(std::ceil((1 - alpha / 2) * (n + 1) - 1e-9));
  if (k == 0 || k > values.size()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[k - 1];
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
  const auto threshold = limit(deficits, alpha);
  const auto share_max = limit(shares, alpha);
  if (!threshold || !share_max) {
    const auto needed = static_cast<std::size_t>(std::ceil(2 / alpha - 1 - 1e-9));
    return Error{Errc::invalid_input,
                 std::to_string(honest.size()) + " honest records are too few for a rate of " +
                     ecmascript_number(alpha),
                 "", "record at least " + std::to_string(needed) + ", or give a higher --rate"};
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
  const bool possible = *alpha > 0 && *alpha < 1 && *share_max <= 1 && calibration.records > 0 &&
                        calibration.differing <= calibration.tokens;
  if (!possible) {
    return Error{Errc::invalid_input, "this calibration has figures that no answers give",
                 "--calibration", "make it with `verbatim replay calibrate`"};
  }
  return calibration;
}

}  // namespace verbatim::replay
