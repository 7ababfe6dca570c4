#include "local_engine/text/jinja/operators.hpp"

#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/utf8.hpp"
#include "schema/html_escape.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::local_engine::jinja {

namespace {

const char* symbol(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::multiply:
      return "*";
    case Op::divide:
      return "/";
    case Op::floor_divide:
      return "//";
    case Op::modulo:
      return "%";
    case Op::power:
      return "** or pow()";
    default:
      return "";
  }
}

[[noreturn]] void unsupported_operands(Op op, const Value& left, const Value& right) {
  fail(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(left) +
       "' and '" + type_name(right) + "'");
}

[[noreturn]] void too_large() { fail("an integer is beyond 64 bits"); }

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) too_large();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return result;
}

Value integers(Op op, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(left, right, &result)) too_large();
      return Value(result);
    case Op::subtract:
      if (__builtin_sub_overflow(left, right, &result)) too_large();
      return Value(result);
    case Op::multiply:
      if (__builtin_mul_overflow(left, right, &result)) too_large();
      return Value(result);
    case Op::power:
      if (right >= 0) return Value(integer_power(left, right));
      if (left == 0) fail("0.0 cannot be raised to a negative power");
      return Value(std::pow(static_cast<double>(left), static_cast<double>(right)));
    default:
      break;
  }
  if (right == 0) fail("division by zero");
  if (op == Op::divide) return Value(static_cast<double>(left) / static_cast<double>(right));
  if (right == -1) {
    if (op == Op::modulo) return Value(std::int64_t{0});
    if (__builtin_sub_overflow(std::int64_t{0}, left, &result)) too_large();
    return Value(result);
  }
  // Python rounds down, and the remainder has the divisor's sign.
  std::int64_t quotient = left / right;
  std::int64_t remainder = left % right;
  if (remainder != 0 && (remainder < 0) != (right < 0)) {
    --quotient;
    remainder += right;
  }
  return Value(op == Op::modulo ? remainder : quotient);
}

Value reals(Op op, double left, double right) {
  switch (op) {
    case Op::add:
      return Value(left + right);
    case Op::subtract:
      return Value(left - right);
    case Op::multiply:
      return Value(left * right);
    case Op::power:
      if (left == 0 && right < 0) fail("0.0 cannot be raised to a negative power");
      if (left < 0 && right != std::floor(right)) fail("a complex number is not supported");
      return Value(std::pow(left, right));
    default:
      break;
  }
  if (right == 0) fail("float division by zero");
  if (op == Op::divide) return Value(left / right);
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (remainder == 0) remainder = std::copysign(0.0, right);
  if (op == Op::modulo) return Value(remainder);
  const double quotient = (left - std::fmod(left, right)) / right;
  const bool adjusted = std::fmod(left, right) != 0 && (std::fmod(left, right) < 0) != (right < 0);
  const double whole = adjusted ? quotient - 1 : quotient;
  if (whole == 0) return Value(std::copysign(0.0, left / right));
  const double floored = std::floor(whole);
  return Value(whole - floored > 0.5 ? floored + 1 : floored);
}

Value add_texts(Interpreter& interpreter, const Value& left, const Value& right) {
  const bool safe = left.is_safe() || right.is_safe();
  // A text that is marked safe escapes what it is joined with.
  const auto part = [&](const Value& value) {
    return safe && !value.is_safe() ? escape_html(value.str()) : value.str();
  };
  if (left.str().size() + right.str().size() > kTextBytesMax) fail("a text is larger than 16 MiB");
  return interpreter.text(part(left) + part(right), safe);
}

Value repeat(Interpreter& interpreter, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (value.is(Kind::string)) {
    const std::string& part = value.str();
    if (!part.empty() && count > kTextBytesMax / part.size()) fail("a text is larger than 16 MiB");
    std::string out;
    if (part.empty()) return interpreter.text(out);
    out.reserve(part.size() * count);
    for (std::size_t i = 0; i < count; ++i) out += part;
    return interpreter.text(std::move(out), value.is_safe());
  }
  const std::vector<Value>& items = value.list().items;
  std::vector<Value> out;
  if (items.empty()) return interpreter.heap().list(std::move(out), value.kind());
  if (count > 1'000'000 / items.size()) fail("a list is too long");
  out.reserve(items.size() * count);
  for (std::size_t i = 0; i < count; ++i) out.insert(out.end(), items.begin(), items.end());
  return interpreter.heap().list(std::move(out), value.kind());
}

bool is_sequence(const Value& value) {
  return value.is(Kind::string) || value.is(Kind::list) || value.is(Kind::tuple);
}

bool contains(Interpreter& interpreter, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is(Kind::string)) {
        fail(std::string("'in <string>' requires string as left operand, not ") + type_name(item));
      }
      interpreter.meter().step(container.str().size() / 64);
      return container.str().find(item.str()) != std::string::npos;
    case Kind::dict:
      return container.dict().find(item) != nullptr;
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return std::any_of(container.list().items.begin(), container.list().items.end(),
                         [&](const Value& each) { return equal(each, item, interpreter.meter()); });
    case Kind::generator: {
      List& list = container.list();
      while (list.consumed < list.items.size()) {
        if (equal(list.items[list.consumed++], item, interpreter.meter())) return true;
      }
      return false;
    }
    case Kind::range: {
      const Range& range = container.range();
      if (!item.is_number() || item.is(Kind::big)) return false;
      const double number = item.as_real();
      if (number != std::floor(number) || std::abs(number) > 9e18) return false;
      const auto value = static_cast<std::int64_t>(number);
      const bool inside = range.step > 0 ? value >= range.start && value < range.stop
                                         : value <= range.start && value > range.stop;
      return inside && (value - range.start) % range.step == 0;
    }
    case Kind::undefined:
      return false;
    default:
      fail(std::string("argument of type '") + type_name(container) + "' is not iterable");
  }
}

/// A bound of a slice as an index into `size` items (Python's slice.indices).
std::int64_t bound(const Value& value, std::int64_t size, std::int64_t fallback, bool backwards) {
  if (value.is(Kind::none) || value.is(Kind::undefined)) return fallback;
  if (!value.is_integer()) fail("slice indices must be integers or None");
  std::int64_t index = value.integer();
  if (index < 0) {
    index = index < -size ? (backwards ? -1 : 0) : index + size;
  } else if (index >= size) {
    index = backwards ? size - 1 : size;
  }
  return index;
}

}  // namespace

Value arithmetic(Interpreter& interpreter, Op op, const Value& left, const Value& right) {
  defined(left);
  defined(right);
  if (left.is(Kind::string)) {
    if (op == Op::add && right.is(Kind::string)) return add_texts(interpreter, left, right);
    if (op == Op::modulo) return interpreter.text(format_percent(left.str(), right));
  }
  if (op == Op::add && left.kind() == right.kind() &&
      (left.is(Kind::list) || left.is(Kind::tuple))) {
    std::vector<Value> items = left.list().items;
    items.insert(items.end(), right.list().items.begin(), right.list().items.end());
    interpreter.meter().step(items.size() / 16);
    return interpreter.heap().list(std::move(items), left.kind());
  }
  if (op == Op::multiply && is_sequence(left) && right.is_integer()) {
    return repeat(interpreter, left, right.integer());
  }
  if (op == Op::multiply && is_sequence(right) && left.is_integer()) {
    return repeat(interpreter, right, left.integer());
  }
  if (left.is(Kind::big) || right.is(Kind::big)) too_large();
  if (left.is_integer() && right.is_integer()) return integers(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return reals(op, left.as_real(), right.as_real());
  if (op == Op::add && left.is(Kind::string)) {
    fail(std::string("can only concatenate str (not \"") + type_name(right) + "\") to str");
  }
  unsupported_operands(op, left, right);
}

Value negate(const Value& value) {
  defined(value);
  if (value.is(Kind::real)) return Value(-value.real());
  if (!value.is_integer()) {
    fail(std::string("bad operand type for unary -: '") + type_name(value) + "'");
  }
  return integers(Op::subtract, 0, value.integer());
}

bool compare(Interpreter& interpreter, Op op, const Value& left, const Value& right) {
  Meter& meter = interpreter.meter();
  switch (op) {
    case Op::equal:
      return equal(left, right, meter);
    case Op::not_equal:
      return !equal(left, right, meter);
    case Op::less:
      return less(left, right, meter);
    case Op::greater:
      return less(right, left, meter);
    case Op::less_equal:
      return less(left, right, meter) || equal(left, right, meter);
    case Op::greater_equal:
      return less(right, left, meter) || equal(left, right, meter);
    case Op::in:
      return contains(interpreter, right, left);
    case Op::not_in:
      return !contains(interpreter, right, left);
    default:
      fail("not a comparison");
  }
}

Value slice(Interpreter& interpreter, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  defined(value);
  std::int64_t by = 1;
  if (!step.is(Kind::none) && !step.is(Kind::undefined)) {
    if (!step.is_integer()) fail("slice indices must be integers or None");
    by = step.integer();
  }
  if (by == 0) fail("slice step cannot be zero");
  const bool is_text = value.is(Kind::string);
  if (!is_text && !value.is(Kind::list) && !value.is(Kind::tuple) && !value.is(Kind::range)) {
    return interpreter.heap().undefined(std::string("a '") + type_name(value) +
                                        "' cannot be sliced");
  }
  std::vector<std::string_view> characters;
  if (is_text) characters = split_characters(value.str());
  std::vector<Value> range_items;
  if (value.is(Kind::range)) range_items = interpreter.iterate(value);
  const std::vector<Value>& items =
      value.is(Kind::range) || is_text ? range_items : value.list().items;
  const auto size = static_cast<std::int64_t>(is_text ? characters.size() : items.size());
  interpreter.meter().step(1 + static_cast<std::uint64_t>(size) / 16);
  const bool backwards = by < 0;
  const std::int64_t first = bound(start, size, backwards ? size - 1 : 0, backwards);
  const std::int64_t end = bound(stop, size, backwards ? -1 : size, backwards);
  std::string text;
  std::vector<Value> out;
  for (std::int64_t i = first; backwards ? i > end : i < end;) {
    if (is_text) {
      text += characters[static_cast<std::size_t>(i)];
    } else {
      out.push_back(items[static_cast<std::size_t>(i)]);
    }
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (is_text) return interpreter.text(std::move(text), value.is_safe());
  return interpreter.heap().list(std::move(out), value.is(Kind::tuple) ? Kind::tuple : Kind::list);
}

std::string escape_html(std::string_view text) {
  return verbatim::escape_html(text, "&#34;");  // as MarkupSafe does
}

}  // namespace verbatim::local_engine::jinja
