// Jinja's filters on single values, and tojson as Hugging Face defines it. Those on sequences: sequence_filters.cpp.

#include "local_engine/text/jinja/builtins.hpp"
#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/jinja/sequence_filters.hpp"
#include "local_engine/text/utf8.hpp"

#include <charconv>
#include <cmath>
#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

/// A filter that turns str(value) into another text; what is marked safe stays so.
template <std::string (*function)(std::string_view)>
Value mapped(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("the filter", arguments);
  return interpreter.text(function(to_text(value)), value.is_safe());
}

/// The filter's own idea of title case: the first letter after a space, a hyphen or an opening bracket.
std::string title_words(std::string_view text) {
  std::string out;
  bool start = true;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const bool separator = is_python_space(point.value) || point.value == '-' ||
                           point.value == '(' || point.value == '{' || point.value == '[' ||
                           point.value == '<';
    const std::string_view character = text.substr(at, point.size);
    out += separator ? std::string(character) : start ? to_upper(character) : to_lower(character);
    start = separator;
    at += point.size;
  }
  return out;
}

Value default_value(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is(Kind::undefined) || (bound.flag(1, false) && !is_true(value));
  return missing ? bound.get_or(0, interpreter.text("")) : value;
}

Value trim(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const auto set = Bound("trim", arguments, {"chars"}).text(0);
  const std::string text = to_text(value);
  const std::string_view left = set ? strip_left(text, *set) : strip_left(text);
  return interpreter.text(std::string(set ? strip_right(left, *set) : strip_right(left)),
                          value.is_safe());
}

Value replace_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  return interpreter.text(checked_replace(to_text(value), to_text(bound.need(0)),
                                          to_text(bound.need(1)), bound.integer(2).value_or(-1)));
}

Value string_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("string", arguments);
  return value.is(Kind::string) ? value : interpreter.text(to_text(value));
}

Value safe(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("safe", arguments);
  return interpreter.text(to_text(value), true);
}

Value escape(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("escape", arguments);
  return value.is_safe() ? value : interpreter.text(escape_html(to_text(value)), true);
}

Value force_escape(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("forceescape", arguments);
  return interpreter.text(escape_html(to_text(value)), true);
}

Value indent(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  const Value* width = bound.get(0);
  const bool by_text = width != nullptr && width->is(Kind::string);
  const std::int64_t spaces = by_text ? 0 : bound.integer(0).value_or(4);
  if (spaces > 10000) fail("indent: the width is too large");
  const std::string margin =
      by_text ? width->str()
              : std::string(static_cast<std::size_t>(std::max<std::int64_t>(spaces, 0)), ' ');
  const std::string text = to_text(value) + "\n";
  std::string out = bound.flag(1, false) ? margin : "";
  bool is_first = true;
  for (const std::string_view line : split_lines(text, /*keep_ends=*/false)) {
    if (!is_first) {
      out += '\n';
      if (!line.empty() || bound.flag(2, false)) out += margin;
    }
    is_first = false;
    out += line;
    if (out.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
  }
  return interpreter.text(std::move(out), value.is_safe());
}

Value truncate(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string text = to_text(value);
  const std::string end = bound.text(2).value_or("...");
  const std::int64_t size = bound.integer(0).value_or(255);
  const auto end_size = static_cast<std::int64_t>(length(end));
  const std::int64_t leeway = bound.integer(3).value_or(5);
  if (size < end_size || leeway < 0) fail("truncate: length or leeway is too small");
  const auto characters = split_characters(text);
  if (static_cast<std::int64_t>(characters.size()) <= size + leeway) return interpreter.text(text);
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < size - end_size; ++i)
    bytes += characters[static_cast<std::size_t>(i)].size();
  std::string out = text.substr(0, bytes);
  if (!bound.flag(1, false)) out = out.substr(0, out.rfind(' '));
  return interpreter.text(out + end);
}

Value center(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const std::int64_t width = Bound("center", arguments, {"width"}).integer(0).value_or(80);
  CallArguments call;
  call.positional.emplace_back(width);
  return find_text_method("center")(interpreter, interpreter.text(to_text(value)), call);
}

Value int_filter(Interpreter&, const Value& value, CallArguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  defined(value);
  if (value.is_integer()) return Value(value.integer());
  if (value.is(Kind::big)) return value;
  const auto base =
      static_cast<int>(std::clamp<std::int64_t>(bound.integer(1).value_or(10), -1, 37));
  std::optional<double> real;
  if (value.is(Kind::string)) {
    if (const auto parsed = parse_integer(value.str(), base)) return Value(*parsed);
    real = parse_float(value.str());
  } else if (value.is(Kind::real)) {
    real = value.real();
  }
  if (!real || std::isnan(*real) || std::isinf(*real))
    return bound.get_or(0, Value(std::int64_t{0}));
  if (std::abs(*real) >= 9.2e18) fail("an integer is beyond 64 bits");
  return Value(static_cast<std::int64_t>(*real));
}

Value float_filter(Interpreter&, const Value& value, CallArguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  defined(value);
  if (value.is_number()) return Value(value.as_real());
  const auto parsed = value.is(Kind::string) ? parse_float(value.str()) : std::nullopt;
  return parsed ? Value(*parsed) : bound.get_or(0, Value(0.0));
}

Value absolute(Interpreter&, const Value& value, CallArguments& arguments) {
  expect_no_arguments("abs", arguments);
  if (!value.is_number())
    fail(std::string("bad operand type for abs(): '") + type_name(defined(value)) + "'");
  if (value.is(Kind::real)) return Value(std::abs(value.real()));
  if (value.is(Kind::big)) return value;
  return value.integer() < 0 ? negate(value) : Value(value.integer());
}

/// Correctly rounded, ties to even, as Python's round().
double round_to(double value, std::int64_t precision) {
  if (std::isnan(value) || std::isinf(value) || precision > 300) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / scale) * scale;
  }
  char buffer[700];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed,
                                 static_cast<int>(precision));
  double rounded = 0;
  std::from_chars(buffer, end.ptr, rounded);
  return rounded;
}

Value round_filter(Interpreter&, const Value& value, CallArguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  if (!value.is_number())
    fail(std::string("round: type ") + type_name(defined(value)) + " cannot be rounded");
  const std::int64_t precision = bound.integer(0).value_or(0);
  const std::string method = bound.text(1).value_or("common");
  if (method == "common") {
    if (value.is_integer() && precision >= 0) return Value(value.integer());
    return Value(round_to(value.as_real(), precision));
  }
  if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_real() * scale;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value attr(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("attr", arguments, {"name"});
  // Not the key of a dict, as the dot would find it.
  if (value.is(Kind::dict)) {
    Value method = bound_method(interpreter, value, to_text(bound.need(0)));
    if (!method.is(Kind::undefined)) return method;
    return interpreter.heap().undefined("'dict object' has no attribute '" +
                                        to_text(bound.need(0)) + "'");
  }
  return interpreter.attribute(value, to_text(bound.need(0)));
}

Value format_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  Value right;
  if (!arguments.named.empty()) {
    if (!arguments.positional.empty())
      fail("format: positional and keyword arguments cannot be mixed");
    Dict& named = interpreter.heap().make<Dict>();
    for (const auto& [name, item] : arguments.named) {
      interpreter.heap().set(named, interpreter.text(name), item);
    }
    right = Value(named);
  } else {
    right = interpreter.heap().list(arguments.positional, Kind::tuple);
  }
  return interpreter.text(format_percent(to_text(value), right));
}

Value word_count(Interpreter&, const Value& value, CallArguments& arguments) {
  expect_no_arguments("wordcount", arguments);
  const std::string text = to_text(value);
  std::int64_t words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const bool word = is_word_character(point.value);
    if (word && !in_word) ++words;
    in_word = word;
    at += point.size;
  }
  return Value(words);
}

Value to_json_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  const Value* indent = bound.get(1);
  if (indent != nullptr && indent->is(Kind::string)) {
    style.indent = indent->str();
  } else if (const auto width = bound.integer(1)) {
    style.indent =
        std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(*width, 0, 10000)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  const Value* separators = bound.get(2);
  if (separators != nullptr && !separators->is(Kind::none)) {
    const std::vector<Value> pair = interpreter.iterate(*separators);
    if (pair.size() != 2 || !pair[0].is(Kind::string) || !pair[1].is(Kind::string)) {
      fail("tojson: separators must be two texts");
    }
    style.item_separator = pair[0].str();
    style.key_separator = pair[1].str();
  }
  return interpreter.text(to_json(value, style));
}

}  // namespace

Filter find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"abs", absolute},
      {"attr", attr},
      {"capitalize", mapped<capitalize>},
      {"center", center},
      {"d", default_value},
      {"default", default_value},
      {"e", escape},
      {"escape", escape},
      {"float", float_filter},
      {"forceescape", force_escape},
      {"format", format_filter},
      {"indent", indent},
      {"int", int_filter},
      {"lower", mapped<to_lower>},
      {"replace", replace_filter},
      {"round", round_filter},
      {"safe", safe},
      {"string", string_filter},
      {"title", mapped<title_words>},
      {"tojson", to_json_filter},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", mapped<to_upper>},
      {"wordcount", word_count},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? find_sequence_filter(name) : found->second;
}

}  // namespace verbatim::local_engine::jinja
