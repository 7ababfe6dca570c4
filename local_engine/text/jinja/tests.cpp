// Jinja's tests: `value is name(arguments)`.

#include "local_engine/text/jinja/builtins.hpp"
#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/utf8.hpp"

#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

const Value& one(std::string_view name, CallArguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail("the test '" + std::string(name) + "' takes one argument");
  }
  return arguments.positional[0];
}

template <Kind kind>
bool is_kind(Interpreter&, const Value& value, CallArguments&) {
  return value.is(kind);
}

template <Op op>
bool compares(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  return compare(interpreter, op, value, one("comparison", arguments));
}

bool is_defined(Interpreter&, const Value& value, CallArguments&) {
  return !value.is(Kind::undefined);
}

bool is_number(Interpreter&, const Value& value, CallArguments&) { return value.is_number(); }

bool is_integer(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::integer) || value.is(Kind::big);
}

bool is_true_itself(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::boolean) && value.boolean();
}

bool is_false_itself(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::boolean) && !value.boolean();
}

bool is_sequence(Interpreter&, const Value& value, CallArguments&) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
      return true;
    default:
      return false;
  }
}

bool is_iterable(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::undefined) || value.is(Kind::string) || value.is_listed() ||
         value.is(Kind::dict) || value.is(Kind::range);
}

bool is_callable(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::callable) || value.is(Kind::undefined);
}

Value remainder(Interpreter& interpreter, const Value& value, const Value& divisor) {
  return arithmetic(interpreter, Op::modulo, value, divisor);
}

bool is_even(Interpreter& interpreter, const Value& value, CallArguments&) {
  return !is_true(remainder(interpreter, value, Value(std::int64_t{2})));
}

bool is_odd(Interpreter& interpreter, const Value& value, CallArguments&) {
  return equal(remainder(interpreter, value, Value(std::int64_t{2})), Value(std::int64_t{1}),
               interpreter.meter());
}

bool is_divisible(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  return !is_true(remainder(interpreter, value, one("divisibleby", arguments)));
}

bool is_same(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Value& other = one("sameas", arguments);
  if (value.kind() != other.kind()) return false;
  if (value.is_number() || value.is(Kind::string) || value.is(Kind::none) ||
      value.is(Kind::undefined)) {
    return equal(value, other, interpreter.meter());
  }
  return &value.object() == &other.object();
}

/// All letters that have case have this one, and there is one.
bool has_case(const Value& value, bool (*expected)(char32_t)) {
  if (!value.is(Kind::string)) return false;
  bool any = false;
  const std::string& text = value.str();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_cased(point.value)) {
      if (!expected(point.value)) return false;
      any = true;
    }
    at += point.size;
  }
  return any;
}

bool is_lower_text(Interpreter&, const Value& value, CallArguments&) {
  return has_case(value, is_lower);
}
bool is_upper_text(Interpreter&, const Value& value, CallArguments&) {
  return has_case(value, is_upper);
}

bool is_escaped(Interpreter&, const Value& value, CallArguments&) { return value.is_safe(); }

bool is_filter(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::string) && find_filter(value.str()) != nullptr;
}

bool is_test(Interpreter&, const Value& value, CallArguments&) {
  return value.is(Kind::string) && find_test(value.str()) != nullptr;
}

}  // namespace

Test find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, Test> kTests = {
      {"boolean", is_kind<Kind::boolean>},
      {"callable", is_callable},
      {"defined", is_defined},
      {"divisibleby", is_divisible},
      {"escaped", is_escaped},
      {"even", is_even},
      {"false", is_false_itself},
      {"filter", is_filter},
      {"float", is_kind<Kind::real>},
      {"in", compares<Op::in>},
      {"integer", is_integer},
      {"iterable", is_iterable},
      {"lower", is_lower_text},
      {"mapping", is_kind<Kind::dict>},
      {"none", is_kind<Kind::none>},
      {"number", is_number},
      {"odd", is_odd},
      {"sameas", is_same},
      {"sequence", is_sequence},
      {"string", is_kind<Kind::string>},
      {"test", is_test},
      {"true", is_true_itself},
      {"undefined", is_kind<Kind::undefined>},
      {"upper", is_upper_text},
      {"==", compares<Op::equal>},
      {"eq", compares<Op::equal>},
      {"equalto", compares<Op::equal>},
      {"!=", compares<Op::not_equal>},
      {"ne", compares<Op::not_equal>},
      {">", compares<Op::greater>},
      {"gt", compares<Op::greater>},
      {"greaterthan", compares<Op::greater>},
      {">=", compares<Op::greater_equal>},
      {"ge", compares<Op::greater_equal>},
      {"<", compares<Op::less>},
      {"lt", compares<Op::less>},
      {"lessthan", compares<Op::less>},
      {"<=", compares<Op::less_equal>},
      {"le", compares<Op::less_equal>},
  };
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

}  // namespace verbatim::local_engine::jinja
