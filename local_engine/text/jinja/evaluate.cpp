// The half of the interpreter that evaluates expressions.

#include "local_engine/text/jinja/builtins.hpp"
#include "local_engine/text/jinja/interpreter.hpp"
#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"

#include <algorithm>

namespace verbatim::local_engine::jinja {

namespace {

constexpr int kEvaluationsMax = 1200;

/// Python's name of what a value is, as Jinja's messages have it: "dict object".
std::string object_name(const Value& value) {
  return value.is(Kind::none) ? "None" : std::string(type_name(value)) + " object";
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr, Scope& scope) try {
  if (depth_ >= kEvaluationsMax) fail("the template calls itself too deeply");
  struct Depth {
    explicit Depth(int& value) : depth(value) { ++depth; }
    ~Depth() { --depth; }
    int& depth;
  };
  const Depth depth(depth_);
  meter().step();
  return evaluate_node(expr, scope);
} catch (Fault& fault) {
  if (fault.at == kNowhere) fault.at = expr.at;
  throw;
}

Value Interpreter::evaluate_node(const Expr& expr, Scope& scope) {
  const auto item = [&](std::size_t i) { return evaluate(*expr.items[i], scope); };
  switch (expr.kind) {
    case ExprKind::none:
      return Value::none();
    case ExprKind::boolean:
      return Value(expr.integer != 0);
    case ExprKind::integer:
      return Value(expr.integer);
    case ExprKind::real:
      return Value(expr.real);
    case ExprKind::string:
      return text(expr.text);
    case ExprKind::name:
      return evaluate_name(expr, scope);
    case ExprKind::list:
      return heap_.list(evaluate_items(expr.items, scope));
    case ExprKind::tuple:
      return heap_.list(evaluate_items(expr.items, scope), Kind::tuple);
    case ExprKind::dict: {
      Dict& dict = heap_.make<Dict>();
      for (std::size_t i = 0; i + 1 < expr.items.size(); i += 2) {
        const Value key = item(i);
        heap_.set(dict, key, item(i + 1));
      }
      return Value(dict);
    }
    case ExprKind::negate:
      return negate(item(0));
    case ExprKind::positive: {
      const Value value = item(0);
      if (!value.is_number())
        fail(std::string("bad operand type for unary +: '") + type_name(defined(value)) + "'");
      return value.is(Kind::boolean) ? Value(value.integer()) : value;
    }
    case ExprKind::logical_not:
      return Value(!is_true(item(0)));
    case ExprKind::logical_and: {
      Value left = item(0);
      return is_true(left) ? item(1) : left;
    }
    case ExprKind::logical_or: {
      Value left = item(0);
      return is_true(left) ? left : item(1);
    }
    case ExprKind::arithmetic: {
      const Value left = item(0);
      return arithmetic(*this, expr.ops[0], left, item(1));
    }
    case ExprKind::comparison:
      return evaluate_comparison(expr, scope);
    case ExprKind::concat: {
      std::string joined;
      for (const Value& value : evaluate_items(expr.items, scope)) joined += to_text(value);
      if (joined.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
      return text(std::move(joined));
    }
    case ExprKind::conditional:
      if (is_true(item(1))) return item(0);
      if (expr.items[2] != nullptr) return item(2);
      return heap_.undefined(
          "the inline if-expression evaluated to false and no else section was defined");
    case ExprKind::attribute:
      return attribute(item(0), expr.text);
    case ExprKind::subscript:
      return evaluate_subscript(expr, scope);
    case ExprKind::slice:
      fail("a slice can only be a subscript");
    case ExprKind::call:
      return evaluate_call(expr, scope);
    case ExprKind::filter:
      return evaluate_filter(expr, item(0), scope);
    case ExprKind::test: {
      const Value value = item(0);
      return Value(test(expr.text, value, evaluate_arguments(expr.arguments, scope)));
    }
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& expr, Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->parent()) {
    meter().step(at->size() / 32);
    if (const Value* found = at->find(expr.symbol)) return *found;
  }
  Value global = find_global(*this, expr.text);
  if (!global.is(Kind::undefined)) return global;
  return heap_.undefined("'" + expr.text + "' is undefined");
}

Value Interpreter::evaluate_comparison(const Expr& expr, Scope& scope) {
  Value left = evaluate(*expr.items[0], scope);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.items[i + 1], scope);
    if (!compare(*this, expr.ops[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_subscript(const Expr& expr, Scope& scope) {
  const Value object = evaluate(*expr.items[0], scope);
  const Expr& key = *expr.items[1];
  if (key.kind != ExprKind::slice) return subscript(object, evaluate(key, scope));
  std::vector<Value> parts;
  for (const ExprPtr& part : key.items) {
    parts.push_back(part == nullptr ? Value::none() : evaluate(*part, scope));
  }
  return slice(*this, object, parts[0], parts[1], parts[2]);
}

Value Interpreter::evaluate_call(const Expr& expr, Scope& scope) {
  const Value callee = evaluate(*expr.items[0], scope);
  return call(callee, evaluate_arguments(expr.arguments, scope));
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value& value, Scope& scope) {
  return filter(expr.text, value, evaluate_arguments(expr.arguments, scope));
}

/// The filters of a block are a chain whose innermost one has nothing to its left.
Value Interpreter::evaluate_filters_of_block(const Expr& expr, const Value& value, Scope& scope) {
  const Value inner =
      expr.items[0] == nullptr ? value : evaluate_filters_of_block(*expr.items[0], value, scope);
  return evaluate_filter(expr, inner, scope);
}

std::vector<Value> Interpreter::evaluate_items(const std::vector<ExprPtr>& items, Scope& scope) {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const ExprPtr& item : items) values.push_back(evaluate(*item, scope));
  return values;
}

CallArguments Interpreter::evaluate_arguments(const Arguments& arguments, Scope& scope) {
  CallArguments out;
  out.positional = evaluate_items(arguments.positional, scope);
  for (const auto& [name, expr] : arguments.named) {
    out.named.emplace_back(name, evaluate(*expr, scope));
  }
  if (arguments.star != nullptr) {
    for (Value& value : iterate(evaluate(*arguments.star, scope))) {
      out.positional.push_back(std::move(value));
    }
  }
  if (arguments.star_star != nullptr) {
    const Value named = evaluate(*arguments.star_star, scope);
    if (!named.is(Kind::dict)) fail("argument after ** must be a mapping");
    for (const auto& [key, value] : named.dict().entries()) {
      if (!key.is(Kind::string)) fail("keywords must be strings");
      out.named.emplace_back(key.str(), value);
    }
  }
  return out;
}

std::vector<Value> Interpreter::iterate(const Value& value) {
  std::vector<Value> out;
  switch (value.kind()) {
    case Kind::undefined:
      return out;
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      out = value.list().items;
      break;
    case Kind::generator: {
      List& list = value.list();
      out.assign(list.items.begin() + static_cast<std::ptrdiff_t>(list.consumed), list.items.end());
      list.consumed = list.items.size();
      break;
    }
    case Kind::dict:
      for (const auto& [key, item] : value.dict().entries()) out.push_back(key);
      break;
    case Kind::string:
      for (const std::string_view character : split_characters(value.str())) {
        out.push_back(text(std::string(character)));
      }
      break;
    case Kind::range: {
      const Range& range = value.range();
      const std::int64_t size = range.size();
      for (std::int64_t i = 0; i < size; ++i) out.emplace_back(range.start + i * range.step);
      break;
    }
    default:
      fail(std::string("'") + type_name(value) + "' object is not iterable");
  }
  meter().step(1 + out.size() / 16);
  return out;
}

Value Interpreter::attribute(const Value& value, std::string_view name) {
  defined(value);
  Value found;
  switch (value.kind()) {
    case Kind::callable:
      found = value.callable().attribute(*this, name);
      break;
    case Kind::name_space:
      if (const Value* member = value.name_space().attributes.find(name)) return *member;
      break;
    case Kind::string:
    case Kind::list:
      found = bound_method(*this, value, name);
      break;
    case Kind::dict:
      // As in Python, methods hide keys: use ["items"] for a key of that name.
      found = bound_method(*this, value, name);
      if (found.is(Kind::undefined)) {
        if (const Value* member = value.dict().find(name)) return *member;
      }
      break;
    default:
      break;
  }
  if (!found.is(Kind::undefined)) return found;
  return heap_.undefined("'" + object_name(value) + "' has no attribute '" + std::string(name) +
                         "'");
}

Value Interpreter::subscript(const Value& value, const Value& key) {
  defined(value);
  if (key.is_integer()) {
    std::int64_t index = key.integer();
    if (value.is(Kind::list) || value.is(Kind::tuple)) {
      const std::vector<Value>& items = value.list().items;
      if (index < 0) index += static_cast<std::int64_t>(items.size());
      if (index >= 0 && index < static_cast<std::int64_t>(items.size())) {
        return items[static_cast<std::size_t>(index)];
      }
    } else if (value.is(Kind::string)) {
      const auto characters = split_characters(value.str());
      meter().step(characters.size() / 16);
      if (index < 0) index += static_cast<std::int64_t>(characters.size());
      if (index >= 0 && index < static_cast<std::int64_t>(characters.size())) {
        return text(std::string(characters[static_cast<std::size_t>(index)]), value.is_safe());
      }
    } else if (value.is(Kind::range)) {
      const Range& range = value.range();
      if (index < 0) index += range.size();
      if (index >= 0 && index < range.size()) return Value(range.start + index * range.step);
    }
  }
  if (value.is(Kind::dict)) {
    if (const Value* member = value.dict().find(key)) return *member;
  }
  if (key.is(Kind::string)) return attribute(value, key.str());
  return heap_.undefined("'" + object_name(value) + "' has no element " +
                         (key.is(Kind::generator) || key.is(Kind::callable) || key.is(Kind::view)
                              ? std::string("of that key")
                              : to_repr(key)));
}

Value Interpreter::call(const Value& callee, CallArguments arguments) {
  defined(callee);
  if (!callee.is(Kind::callable))
    fail(std::string("'") + type_name(callee) + "' object is not callable");
  meter().step();
  return callee.callable().call(*this, std::move(arguments));
}

Value Interpreter::filter(std::string_view name, const Value& value, CallArguments arguments) {
  const Filter found = find_filter(name);
  if (found == nullptr) refuse("no filter named '" + std::string(name) + "'");
  return found(*this, value, arguments);
}

bool Interpreter::test(std::string_view name, const Value& value, CallArguments arguments) {
  const Test found = find_test(name);
  if (found == nullptr) refuse("no test named '" + std::string(name) + "'");
  return found(*this, value, arguments);
}

}  // namespace verbatim::local_engine::jinja
