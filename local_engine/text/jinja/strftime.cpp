#include "local_engine/text/jinja/strftime.hpp"

#include "local_engine/text/jinja/fault.hpp"

#include <array>
#include <cstdio>

namespace verbatim::local_engine::jinja {

namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

struct Time {
  std::int64_t year;
  int month;  // 1 to 12
  int day;    // 1 to 31
  int hour, minute, second, microsecond;
  int weekday;      // 0: Sunday
  int day_of_year;  // 1 to 366
  std::int64_t unix_seconds;
};

bool is_leap(std::int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Days since 1970-01-01 to a date of the proleptic Gregorian calendar, by eras of 400 years of 146,097 days that begin
/// on 1 March.
Time split_time(std::int64_t unix_us) {
  Time time{};
  const std::int64_t seconds = floor_divide(unix_us, 1'000'000);
  time.unix_seconds = seconds;
  time.microsecond = static_cast<int>(unix_us - seconds * 1'000'000);
  const std::int64_t days = floor_divide(seconds, 86400);
  const auto in_day = static_cast<int>(seconds - days * 86400);
  time.hour = in_day / 3600;
  time.minute = in_day / 60 % 60;
  time.second = in_day % 60;
  time.weekday = static_cast<int>((days % 7 + 11) % 7);
  const std::int64_t shifted = days + 719468;  // days since 0000-03-01
  const std::int64_t era = floor_divide(shifted, 146097);
  const std::int64_t in_era = shifted - era * 146097;
  const std::int64_t year_of_era =
      (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
  const std::int64_t from_march =
      in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t month_from_march = (5 * from_march + 2) / 153;
  time.day = static_cast<int>(from_march - (153 * month_from_march + 2) / 5 + 1);
  time.month =
      static_cast<int>(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
  time.year = year_of_era + era * 400 + (time.month <= 2 ? 1 : 0);
  constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  time.day_of_year = kBefore[static_cast<std::size_t>(time.month - 1)] + time.day +
                     (time.month > 2 && is_leap(time.year) ? 1 : 0);
  return time;
}

/// `pad`: '0', ' ' or '\0' for none.
std::string number(std::int64_t value, int width, char pad) {
  std::string digits = std::to_string(value);
  const auto size = static_cast<std::size_t>(width);
  if (pad != '\0' && digits.size() < size) digits.insert(0, size - digits.size(), pad);
  return digits;
}

/// ISO 8601 week and the year it belongs to.
std::pair<std::int64_t, int> iso_week(const Time& time) {
  const int weekday = (time.weekday + 6) % 7;  // 0: Monday
  const int week = (time.day_of_year - weekday + 9) / 7;
  if (week == 0) {
    const Time last =
        split_time((time.unix_seconds - std::int64_t{time.day_of_year} * 86400) * 1'000'000);
    return {time.year - 1, iso_week(last).second};
  }
  if (week == 53) {
    const int days = is_leap(time.year) ? 366 : 365;
    if (days - time.day_of_year < 3 - weekday) return {time.year + 1, 1};
  }
  return {time.year, week};
}

std::string directive(char kind, char pad, const Time& time, std::int64_t unix_us) {
  const auto padded = [&](std::int64_t value, int width, char fallback) {
    return number(value, width, pad == '?' ? fallback : pad);
  };
  const std::string_view day = kDays[static_cast<std::size_t>(time.weekday)];
  const std::string_view month = kMonths[static_cast<std::size_t>(time.month - 1)];
  const int hour12 = time.hour % 12 == 0 ? 12 : time.hour % 12;
  switch (kind) {
    case 'a':
      return std::string(day.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'C':
      return padded(floor_divide(time.year, 100), 2, '0');
    case 'd':
      return padded(time.day, 2, '0');
    case 'e':
      return padded(time.day, 2, ' ');
    case 'f':
      return number(time.microsecond, 6, '0');
    case 'g':
      return padded(iso_week(time).first % 100, 2, '0');
    case 'G':
      return number(iso_week(time).first, 1, '\0');
    case 'H':
      return padded(time.hour, 2, '0');
    case 'I':
      return padded(hour12, 2, '0');
    case 'j':
      return padded(time.day_of_year, 3, '0');
    case 'k':
      return padded(time.hour, 2, ' ');
    case 'l':
      return padded(hour12, 2, ' ');
    case 'm':
      return padded(time.month, 2, '0');
    case 'M':
      return padded(time.minute, 2, '0');
    case 'n':
      return "\n";
    case 'p':
      return time.hour < 12 ? "AM" : "PM";
    case 'P':
      return time.hour < 12 ? "am" : "pm";
    case 's':
      return std::to_string(time.unix_seconds);
    case 'S':
      return padded(time.second, 2, '0');
    case 't':
      return "\t";
    case 'u':
      return std::to_string(time.weekday == 0 ? 7 : time.weekday);
    case 'U':
      return padded((time.day_of_year + 6 - time.weekday) / 7, 2, '0');
    case 'V':
      return padded(iso_week(time).second, 2, '0');
    case 'w':
      return std::to_string(time.weekday);
    case 'W':
      return padded((time.day_of_year + 6 - (time.weekday + 6) % 7) / 7, 2, '0');
    case 'y':
      return padded(time.year % 100, 2, '0');
    case 'Y':
      return number(time.year, 1, '\0');
    case 'z':  // a datetime without a zone has neither offset nor name
    case 'Z':
      return "";
    case 'c':
      return format_time("%a %b %e %H:%M:%S %Y", unix_us);
    case 'D':
    case 'x':
      return format_time("%m/%d/%y", unix_us);
    case 'F':
      return format_time("%Y-%m-%d", unix_us);
    case 'r':
      return format_time("%I:%M:%S %p", unix_us);
    case 'R':
      return format_time("%H:%M", unix_us);
    case 'T':
    case 'X':
      return format_time("%H:%M:%S", unix_us);
    case '%':
      return "%";
    default:
      refuse(std::string("the time format %") + kind + " is not supported");
  }
}

}  // namespace

std::string format_time(std::string_view format, std::int64_t unix_us) {
  if (format.size() > 4096) fail("a time format is longer than 4096 bytes");
  const Time time = split_time(unix_us);
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    char pad = '?';
    char kind = format[++i];
    if ((kind == '-' || kind == '_' || kind == '0') && i + 1 < format.size()) {
      pad = kind == '-' ? '\0' : kind == '_' ? ' ' : '0';
      kind = format[++i];
    }
    out += directive(kind, pad, time, unix_us);
  }
  return out;
}

}  // namespace verbatim::local_engine::jinja
