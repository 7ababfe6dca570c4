// The methods of Python's str that templates may call.

#include "local_engine/text/jinja/builtins.hpp"
#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>
#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

/// The result of a method on a text that is marked safe is marked so too.
Value like(Interpreter& interpreter, const Value& self, std::string text) {
  return interpreter.text(std::move(text), self.is_safe());
}

Value texts(Interpreter& interpreter, const Value& self, const std::vector<std::string_view>& parts,
            Kind kind = Kind::list) {
  std::vector<Value> out;
  out.reserve(parts.size());
  for (const std::string_view part : parts)
    out.push_back(like(interpreter, self, std::string(part)));
  return interpreter.heap().list(std::move(out), kind);
}

template <std::string (*function)(std::string_view)>
Value mapped(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  expect_no_arguments("the method", arguments);
  return like(interpreter, self, function(self.str()));
}

template <bool left, bool right>
Value stripped(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const auto set = Bound("strip", arguments, {"chars"}).text(0);
  std::string_view text = self.str();
  if (left) text = set ? strip_left(text, *set) : strip_left(text);
  if (right) text = set ? strip_right(text, *set) : strip_right(text);
  return like(interpreter, self, std::string(text));
}

template <bool from_right>
Value split_method(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const auto separator = bound.text(0);
  if (separator && separator->empty()) fail("empty separator");
  const std::int64_t limit = bound.integer(1).value_or(-1);
  return texts(interpreter, self,
               from_right ? split_from_right(self.str(), separator, limit)
                          : split(self.str(), separator, limit));
}

Value splitlines(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const bool keep = Bound("splitlines", arguments, {"keepends"}).flag(0, false);
  return texts(interpreter, self, split_lines(self.str(), keep));
}

/// self[start:end] by code points, as the optional arguments of several methods say.
std::string_view between(std::string_view text, const Bound& bound, std::size_t first) {
  const auto start = bound.integer(first);
  const auto end = bound.integer(first + 1);
  if (!start && !end) return text;
  const auto characters = split_characters(text);
  const auto size = static_cast<std::int64_t>(characters.size());
  const auto clamp = [&](std::int64_t index) {
    return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const std::int64_t from = clamp(start.value_or(0));
  const std::int64_t to = clamp(end.value_or(size));
  if (from >= to) return {};
  const char* begin = characters[static_cast<std::size_t>(from)].data();
  const std::string_view last = characters[static_cast<std::size_t>(to - 1)];
  return {begin, static_cast<std::size_t>(last.data() + last.size() - begin)};
}

template <bool at_end>
Value begins(Interpreter&, const Value& self, CallArguments& arguments) {
  const Bound bound(at_end ? "endswith" : "startswith", arguments, {"prefix", "start", "end"});
  const std::string_view text = between(self.str(), bound, 1);
  const auto matches = [&](const Value& value) {
    if (!value.is(Kind::string))
      fail(std::string("startswith and endswith take str or a tuple of str, not ") +
           type_name(defined(value)));
    return at_end ? text.ends_with(value.str()) : text.starts_with(value.str());
  };
  const Value& what = bound.need(0);
  if (!what.is(Kind::tuple)) return Value(matches(what));
  const auto& items = what.list().items;
  return Value(std::any_of(items.begin(), items.end(), matches));
}

Value replace_method(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  bound.need(1);
  const std::string from = bound.text(0).value_or("");
  const std::string to = bound.text(1).value_or("");
  return like(interpreter, self,
              checked_replace(self.str(), from, to, bound.integer(2).value_or(-1)));
}

/// The code point index of a match, or -1.
std::int64_t find_in(const Value& self, CallArguments& arguments, bool from_right) {
  const Bound bound("find", arguments, {"sub", "start", "end"});
  bound.need(0);
  const std::string what = bound.text(0).value_or("");
  const std::string_view text = between(self.str(), bound, 1);
  const std::size_t at = from_right ? text.rfind(what) : text.find(what);
  if (at == std::string_view::npos) return -1;
  if (text.data() == nullptr) return 0;
  const auto offset = static_cast<std::size_t>(text.data() - self.str().data()) + at;
  return static_cast<std::int64_t>(length(std::string_view(self.str()).substr(0, offset)));
}

template <bool from_right>
Value find_method(Interpreter&, const Value& self, CallArguments& arguments) {
  return Value(find_in(self, arguments, from_right));
}

template <bool from_right>
Value index_method(Interpreter&, const Value& self, CallArguments& arguments) {
  const std::int64_t at = find_in(self, arguments, from_right);
  if (at < 0) fail("substring not found");
  return Value(at);
}

Value count_method(Interpreter&, const Value& self, CallArguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"});
  bound.need(0);
  const std::string what = bound.text(0).value_or("");
  const std::string_view text = between(self.str(), bound, 1);
  return Value(static_cast<std::int64_t>(count_matches(text, what)));
}

Value join_method(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("join", arguments, {"iterable"});
  std::string out;
  bool first = true;
  for (const Value& item : interpreter.iterate(bound.need(0))) {
    if (!item.is(Kind::string))
      fail(std::string("sequence item: expected str instance, ") + type_name(defined(item)) +
           " found");
    if (!first) out += self.str();
    first = false;
    out += item.str();
    if (out.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
  }
  return like(interpreter, self, std::move(out));
}

Value format_method(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  return like(interpreter, self, format_braces(interpreter, self.str(), arguments));
}

template <bool suffix>
Value without(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound(suffix ? "removesuffix" : "removeprefix", arguments, {"affix"});
  bound.need(0);
  const std::string affix = bound.text(0).value_or("");
  std::string_view text = self.str();
  if (suffix && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!suffix && text.starts_with(affix)) text.remove_prefix(affix.size());
  return like(interpreter, self, std::string(text));
}

template <bool from_right>
Value partition(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("partition", arguments, {"sep"});
  bound.need(0);
  const std::string separator = bound.text(0).value_or("");
  if (separator.empty()) fail("empty separator");
  const std::string_view text = self.str();
  const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == std::string_view::npos) {
    return from_right ? texts(interpreter, self, {"", "", text}, Kind::tuple)
                      : texts(interpreter, self, {text, "", ""}, Kind::tuple);
  }
  return texts(interpreter, self,
               {text.substr(0, at), separator, text.substr(at + separator.size())}, Kind::tuple);
}

/// All characters satisfy it, and there is one.
template <bool (*predicate)(char32_t)>
Value all_are(Interpreter&, const Value& self, CallArguments& arguments) {
  expect_no_arguments("the method", arguments);
  const std::string& text = self.str();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (!predicate(point.value)) return Value(false);
    at += point.size;
  }
  return Value(!text.empty());
}

bool is_letter_or_number(char32_t value) { return is_letter(value) || is_numeric(value); }

template <bool upper>
Value has_case(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  return Value(interpreter.test(upper ? "upper" : "lower", self, std::move(arguments)));
}

enum class Side { left, right, both };

template <Side side>
Value padded(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("the method", arguments, {"width", "fillchar"});
  bound.need(0);
  const std::string fill = bound.text(1).value_or(" ");
  if (length(fill) != 1) fail("the fill character must be exactly one character long");
  const auto width = bound.integer(0).value_or(0);
  const auto size = static_cast<std::int64_t>(length(self.str()));
  if (width <= size) return self;
  if (width > static_cast<std::int64_t>(kTextBytesMax / 4)) fail("a text is larger than 16 MiB");
  const std::int64_t missing = width - size;
  // str.center puts the odd one to the left when the width is odd.
  const std::int64_t left = side == Side::left    ? 0
                            : side == Side::right ? missing
                                                  : missing / 2 + (missing & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.str();
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return like(interpreter, self, std::move(out));
}

Value zfill(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("zfill", arguments, {"width"});
  bound.need(0);
  const auto width = bound.integer(0).value_or(0);
  const auto size = static_cast<std::int64_t>(length(self.str()));
  if (width <= size) return self;
  if (width > static_cast<std::int64_t>(kTextBytesMax)) fail("a text is larger than 16 MiB");
  const bool sign = self.str().starts_with('-') || self.str().starts_with('+');
  std::string out = sign ? self.str().substr(0, 1) : "";
  out.append(static_cast<std::size_t>(width - size), '0');
  return like(interpreter, self, out + self.str().substr(sign ? 1 : 0));
}

}  // namespace

Method find_text_method(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"capitalize", mapped<capitalize>},
      {"center", padded<Side::both>},
      {"count", count_method},
      {"endswith", begins<true>},
      {"find", find_method<false>},
      {"format", format_method},
      {"index", index_method<false>},
      {"isalnum", all_are<is_letter_or_number>},
      {"isalpha", all_are<is_letter>},
      {"isdecimal", all_are<is_decimal>},
      {"isdigit", all_are<is_decimal>},
      {"islower", has_case<false>},
      {"isnumeric", all_are<is_numeric>},
      {"isspace", all_are<is_python_space>},
      {"isupper", has_case<true>},
      {"join", join_method},
      {"ljust", padded<Side::left>},
      {"lower", mapped<to_lower>},
      {"lstrip", stripped<true, false>},
      {"partition", partition<false>},
      {"removeprefix", without<false>},
      {"removesuffix", without<true>},
      {"replace", replace_method},
      {"rfind", find_method<true>},
      {"rindex", index_method<true>},
      {"rjust", padded<Side::right>},
      {"rpartition", partition<true>},
      {"rsplit", split_method<true>},
      {"rstrip", stripped<false, true>},
      {"split", split_method<false>},
      {"splitlines", splitlines},
      {"startswith", begins<false>},
      {"strip", stripped<true, true>},
      {"swapcase", mapped<swap_case>},
      {"title", mapped<title>},
      {"upper", mapped<to_upper>},
      {"zfill", zfill},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace verbatim::local_engine::jinja
