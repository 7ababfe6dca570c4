#include "cli/progress.hpp"

#include <unistd.h>

#include <iostream>
#include <utility>

namespace verbatim::cli {

namespace {

constexpr std::int64_t kEveryUs = 100'000;

}  // namespace

Progress::Progress(bool quiet, std::string verb, const Clock& clock)
    : on_(!quiet && ::isatty(STDERR_FILENO) == 1),
      verb_(std::move(verb)),
      clock_(clock),
      start_us_(clock.steady_us()) {}

void Progress::show(std::size_t done, std::size_t of) {
  if (!on_ || done == 0) return;
  const std::int64_t now_us = clock_.steady_us();
  if (visible_ && now_us - shown_us_ < kEveryUs) return;
  shown_us_ = now_us;
  visible_ = true;
  const double each_us = static_cast<double>(now_us - start_us_) / static_cast<double>(done);
  const auto left_s = static_cast<std::int64_t>(each_us * static_cast<double>(of - done) / 1e6);
  std::cerr << "\r\x1b[K" << verb_ << ' ' << done << " of " << of << ", " << duration_text(left_s)
            << " left" << std::flush;
}

void Progress::clear() {
  if (std::exchange(visible_, false)) std::cerr << "\r\x1b[K" << std::flush;
}

std::string duration_text(std::int64_t seconds) {
  const auto in = [](std::int64_t amount, const char* unit) {
    return std::to_string(amount) + unit;
  };
  if (seconds < 60) return in(seconds, " s");
  if (seconds < 3600) return in(seconds / 60, " min ") + in(seconds % 60, " s");
  return in(seconds / 3600, " h ") + in(seconds % 3600 / 60, " min");
}

}  // namespace verbatim::cli
