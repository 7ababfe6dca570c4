#include "schema/clock.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>

namespace verbatim {

std::int64_t SystemClock::now_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t SystemClock::steady_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string format_rfc3339(std::int64_t unix_us) {
  using namespace std::chrono;
  const sys_time<microseconds> time{microseconds{unix_us}};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()),
                static_cast<int>(clock.subseconds().count()));
  return text.data();
}

namespace {

/// Reads a text from the front. Every function returns nothing once the text does not fit.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<int> number(std::size_t digits) {
    if (text_.size() < digits) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (text_[i] < '0' || text_[i] > '9') return std::nullopt;
      value = value * 10 + (text_[i] - '0');
    }
    text_.remove_prefix(digits);
    return value;
  }

  bool literal(std::string_view any_of) {
    if (text_.empty() || any_of.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }

  /// Up to six digits count; more are read and dropped.
  std::optional<int> fraction_us() {
    if (!literal(".")) return 0;
    int value = 0;
    int digits = 0;
    while (!text_.empty() && text_.front() >= '0' && text_.front() <= '9') {
      if (digits < 6) value = value * 10 + (text_.front() - '0');
      ++digits;
      text_.remove_prefix(1);
    }
    if (digits == 0) return std::nullopt;
    for (int i = digits; i < 6; ++i) value *= 10;
    return value;
  }

  [[nodiscard]] bool at_end() const { return text_.empty(); }
  [[nodiscard]] char next() const { return text_.empty() ? '\0' : text_.front(); }

 private:
  std::string_view text_;
};

std::optional<std::int64_t> scan_rfc3339(std::string_view text) {
  using namespace std::chrono;
  Scanner scan(text);
  const auto y = scan.number(4);
  if (!y || !scan.literal("-")) return std::nullopt;
  const auto m = scan.number(2);
  if (!m || !scan.literal("-")) return std::nullopt;
  const auto d = scan.number(2);
  if (!d) return std::nullopt;
  const year_month_day date{year{*y}, month{static_cast<unsigned>(*m)},
                            day{static_cast<unsigned>(*d)}};
  if (!date.ok()) return std::nullopt;
  const microseconds midnight = sys_days{date}.time_since_epoch();
  if (scan.at_end()) return midnight.count();

  if (!scan.literal("Tt ")) return std::nullopt;
  const auto hour = scan.number(2);
  if (!hour || !scan.literal(":")) return std::nullopt;
  const auto minute = scan.number(2);
  if (!minute || !scan.literal(":")) return std::nullopt;
  const auto second = scan.number(2);
  if (!second) return std::nullopt;
  const auto fraction = scan.fraction_us();
  if (!fraction || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;

  minutes offset{0};
  if (!scan.literal("Zz")) {
    const int sign = scan.next() == '-' ? -1 : 1;
    if (!scan.literal("+-")) return std::nullopt;
    const auto offset_hours = scan.number(2);
    if (!offset_hours || !scan.literal(":")) return std::nullopt;
    const auto offset_minutes = scan.number(2);
    if (!offset_minutes || *offset_hours > 23 || *offset_minutes > 59) return std::nullopt;
    offset = sign * (hours{*offset_hours} + minutes{*offset_minutes});
  }
  if (!scan.at_end()) return std::nullopt;
  const microseconds time = midnight + hours{*hour} + minutes{*minute} + seconds{*second} +
                            microseconds{*fraction} - offset;
  return time.count();
}

}  // namespace

Result<std::int64_t> parse_rfc3339(std::string_view text) {
  const auto time = scan_rfc3339(text);
  if (!time) {
    return Error{Errc::invalid_input, "'" + std::string(text) + "' is not a time", "",
                 "write it as 2026-11-29T12:00:00Z or 2026-11-29"};
  }
  return *time;
}

}  // namespace verbatim
