#include "kernels/sampling/sampling.hpp"

#include "kernels/elementary/elementary.hpp"
#include "kernels/logits/logits.hpp"
#include "kernels/sampling/philox.hpp"

#include <algorithm>
#include <cfloat>
#include <limits>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A token still in the running: ascending ids, unless a filter says otherwise.
struct Candidate {
  std::int32_t id = 0;
  float x = 0;
  float e = 0;  // exp(x - m), when a filter needs it
};

bool higher(const Candidate& a, const Candidate& b) {
  return a.x > b.x || (a.x == b.x && a.id < b.id);
}

/// Logits after bias and penalties.
std::vector<float> adjusted(std::span<const float> logits, const SamplerParams& params) {
  std::vector<float> x(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.bias) {
    const auto at = static_cast<std::size_t>(id);
    if (at < x.size()) x[at] = x[at] + static_cast<float>(bias);
  }
  const auto repetition = static_cast<float>(params.repetition_penalty);
  const auto frequency = static_cast<float>(params.frequency_penalty);
  const auto presence = static_cast<float>(params.presence_penalty);
  for (const TokenCount& seen : params.seen) {
    const auto at = static_cast<std::size_t>(seen.id);
    if (at >= x.size()) continue;
    if (repetition != 1 && (seen.in_prompt > 0 || seen.in_output > 0)) {
      x[at] = x[at] > 0 ? x[at] / repetition : x[at] * repetition;
    }
    if (seen.in_output == 0) continue;
    if (frequency != 0) x[at] = x[at] - frequency * static_cast<float>(seen.in_output);
    if (presence != 0) x[at] = x[at] - presence;
  }
  return x;
}

void keep_top_k(std::vector<Candidate>& all, std::size_t k) {
  if (k == 0 || k >= all.size()) return;
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k - 1), all.end(),
                   higher);
  all.resize(k);
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

/// Fills in e. The candidates are in ascending ids.
void exponentials(Backend backend, std::vector<Candidate>& all) {
  float m = all[0].x;
  for (const Candidate& c : all) m = c.x > m ? c.x : m;
  std::vector<float> e(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) e[i] = all[i].x - m;
  exp_f32(backend, e.data(), e.size(), e.data());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].e = e[i];
}

void keep_min_p(std::vector<Candidate>& all, double min_p) {
  // Relative to the largest, whose exponential is 1: the sum cancels.
  std::erase_if(all, [&](const Candidate& c) { return static_cast<double>(c.e) < min_p; });
}

void keep_top_p(std::vector<Candidate>& all, double top_p) {
  double total = 0;
  for (const Candidate& c : all) total += static_cast<double>(c.e);
  // Most mass is in few tokens: sort a growing front instead of everything.
  double reached = 0;
  std::size_t sorted = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == sorted) {
      sorted = std::min(all.size(), std::max<std::size_t>(64, 4 * sorted));
      std::partial_sort(all.begin() + static_cast<std::ptrdiff_t>(i),
                        all.begin() + static_cast<std::ptrdiff_t>(sorted), all.end(), higher);
    }
    reached += static_cast<double>(all[i].e) / total;
    if (reached >= top_p) {
      all.resize(i + 1);
      return;
    }
  }
}

/// The best two of a stream of (id, value) in any order; ties go to the smaller id.
class Best {
 public:
  void add(std::int32_t id, float value) {
    if (better(id, value, top_.best, top_.best_value)) {
      top_.second = top_.best;
      top_.second_value = top_.best_value;
      top_.best = id;
      top_.best_value = value;
    } else if (better(id, value, top_.second, top_.second_value)) {
      top_.second = id;
      top_.second_value = value;
    }
  }
  [[nodiscard]] const Top2& top() const { return top_; }

 private:
  static bool better(std::int32_t id, float value, std::int32_t other, float other_value) {
    return other < 0 || value > other_value || (value == other_value && id < other);
  }
  Top2 top_;
};

TokenChoice greedy(Backend backend, const std::vector<float>& x, std::int32_t given) {
  const Top2 top = top2(backend, x);
  TokenChoice choice{top.best, top.second, top.margin(), 0};
  if (given >= 0) choice.deficit = top.best_value - x[static_cast<std::size_t>(given)];
  return choice;
}

/// Scores candidates in batches. One whose value with the largest possible noise stays below the runner-up so far is
/// skipped: rounding is monotonic, so its score cannot be above.
class Scorer {
 public:
  Scorer(Backend backend, const SamplerParams& params, std::int32_t given)
      : backend_(backend), params_(params), given_(given) {}

  void add(const Candidate& c) {
    const bool hopeless = best_.top().second >= 0 && c.x + kNoiseMax < best_.top().second_value;
    if (hopeless && c.id != given_) return;
    ids_[count_] = c.id;
    values_[count_++] = c.x;
    if (count_ == kBatch) flush();
  }

  void flush() {
    float noise[kBatch];
    gumbel_noise(backend_, params_.seed, params_.position, ids_, count_, params_.choice, noise);
    for (std::size_t i = 0; i < count_; ++i) {
      const float score = values_[i] + noise[i];
      best_.add(ids_[i], score);
      if (ids_[i] == given_) given_score_ = score;
    }
    count_ = 0;
  }

  [[nodiscard]] const Top2& top() const { return best_.top(); }
  [[nodiscard]] float given_score() const { return given_score_; }

 private:
  static constexpr std::size_t kBatch = 256;
  static constexpr float kNoiseMax = 16.64f;  // above -log(-log(1 - 2^-24))

  Backend backend_;
  const SamplerParams& params_;
  std::int32_t given_;
  float given_score_ = -kInfinity;
  Best best_;
  std::int32_t ids_[kBatch];
  float values_[kBatch];
  std::size_t count_ = 0;
};

TokenChoice sampled(Backend backend, const std::vector<Candidate>& all, const SamplerParams& params,
                    float temperature, std::int32_t given) {
  // The highest first, so that there is soon something to skip the others by. Scoring one twice would make it its own
  // runner-up.
  std::size_t highest = 0;
  for (std::size_t i = 1; i < all.size(); ++i) highest = all[i].x > all[highest].x ? i : highest;
  Scorer scorer(backend, params, given);
  scorer.add(all[highest]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i != highest) scorer.add(all[i]);
  }
  scorer.flush();
  const Top2& top = scorer.top();
  TokenChoice choice{top.best, top.second, top.margin() * temperature, 0};
  if (given >= 0) choice.deficit = (top.best_value - scorer.given_score()) * temperature;
  return choice;
}

}  // namespace

TokenChoice choose_token(Backend backend, std::span<const float> logits,
                         const SamplerParams& params, std::int32_t given) {
  VERBATIM_CHECK(!logits.empty() && given < static_cast<std::int32_t>(logits.size()));
  std::vector<float> x = adjusted(logits, params);
  const auto temperature = static_cast<float>(params.temperature);
  if (params.temperature != 0) {
    for (float& value : x) value = value / temperature;
  }
  if (!all_finite(backend, x)) return {};
  if (params.temperature == 0) return greedy(backend, x, given);

  std::vector<Candidate> all(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) all[i] = {static_cast<std::int32_t>(i), x[i], 0};
  keep_top_k(all, params.top_k);
  const bool need_min_p = params.min_p > 0, need_top_p = params.top_p < 1;
  if (need_min_p || need_top_p) exponentials(backend, all);
  if (need_min_p) keep_min_p(all, params.min_p);
  if (need_top_p) keep_top_p(all, params.top_p);
  return sampled(backend, all, params, temperature, given);
}

}  // namespace verbatim::kernels
