#include "local_engine/text/jinja/interpreter.hpp"

#include "local_engine/text/jinja/builtins.hpp"
#include "local_engine/text/jinja/loop.hpp"
#include "local_engine/text/jinja/macro.hpp"
#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"

#include <algorithm>
#include <exception>

namespace verbatim::local_engine::jinja {

namespace {

constexpr int kNestingMax =
    1200;  // evaluations within one another, macros that call macros included

}  // namespace

/// Counts nesting, so that recursion without end is a Fault and not a crash.
class Interpreter::Nesting {
 public:
  explicit Nesting(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > kNestingMax) {
      --interpreter_.depth_;
      fail("the template calls itself too deeply");
    }
  }
  ~Nesting() { --interpreter_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Interpreter& interpreter_;
};

/// A scope for one block. If a macro was defined in it, the scope lives on: the macro may have been passed out.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope& parent)
      : interpreter_(interpreter), scope_(std::make_unique<Scope>(&parent)) {}
  ~ScopeGuard() {
    if (!scope_->captured) return;
    // What it is in must live on as well.
    for (Scope* outer = scope_->parent(); outer != nullptr; outer = outer->parent()) {
      outer->captured = true;
    }
    interpreter_.kept_scopes_.push_back(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  Scope& operator*() { return *scope_; }

 private:
  Interpreter& interpreter_;
  std::unique_ptr<Scope> scope_;
};

void Interpreter::define(std::string_view name, Value value) {
  context_.emplace_back(std::string(name), std::move(value));
}

std::string Interpreter::run() {
  std::string out;
  out_ = &out;
  auto context = std::make_unique<Scope>(nullptr);
  for (auto& [name, value] : context_) {
    const auto found = std::find(template_.names.begin(), template_.names.end(), name);
    if (found == template_.names.end()) continue;  // the template does not ask for it
    context->set(static_cast<Symbol>(found - template_.names.begin()), std::move(value));
  }
  kept_scopes_.push_back(std::move(context));
  kept_scopes_.push_back(std::make_unique<Scope>(kept_scopes_.back().get()));
  run_body(template_.body, *kept_scopes_.back());
  return out;
}

void Interpreter::print(std::string_view text) {
  if (out_->size() + text.size() > kTextBytesMax) fail("the output is larger than 16 MiB");
  *out_ += text;
}

Interpreter::Flow Interpreter::run_body(const Body& body, Scope& scope) {
  for (const auto& stmt : body) {
    const Flow flow = run_statement(*stmt, scope);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

/// A body in a scope of its own.
Interpreter::Flow Interpreter::run_inner(const Body& body, Scope& scope) {
  ScopeGuard inner(*this, scope);
  return run_body(body, *inner);
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): ScopeGuard's, which owns it or hands it on

std::string Interpreter::capture(const Body& body, Scope& scope) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  try {
    run_body(body, scope);
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return text;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& stmt, Scope& scope) try {
  const Nesting nesting(*this);
  meter().step();
  switch (stmt.kind) {
    case StmtKind::data:
      print(stmt.text);
      return Flow::normal;
    case StmtKind::output:
      print(to_text(evaluate(*stmt.expr, scope)));
      return Flow::normal;
    case StmtKind::if_else:
      return run_if(stmt, scope);
    case StmtKind::for_loop:
      run_loop(stmt, scope, evaluate(*stmt.expr, scope), 0);
      return Flow::normal;
    case StmtKind::set:
      assign(stmt.target, evaluate(*stmt.expr, scope), scope);
      return Flow::normal;
    case StmtKind::set_block: {
      ScopeGuard inner(*this, scope);
      Value value = text(capture(stmt.body, *inner));
      if (stmt.expr != nullptr) value = evaluate_filters_of_block(*stmt.expr, value, scope);
      assign(stmt.target, value, scope);
      return Flow::normal;
    }
    case StmtKind::macro:
      run_macro_definition(stmt, scope);
      return Flow::normal;
    case StmtKind::call_block:
      run_call_block(stmt, scope);
      return Flow::normal;
    case StmtKind::filter_block: {
      ScopeGuard inner(*this, scope);
      const Value value = text(capture(stmt.body, *inner));
      print(to_text(evaluate_filters_of_block(*stmt.expr, value, scope)));
      return Flow::normal;
    }
    case StmtKind::with:
      run_with(stmt, scope);
      return Flow::normal;
    case StmtKind::generation:
      return run_inner(stmt.body, scope);
    case StmtKind::break_loop:
      return Flow::break_loop;
    case StmtKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::normal;
} catch (Fault& fault) {
  if (fault.at == kNowhere) fault.at = stmt.at;
  throw;
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): ScopeGuard's, which owns it or hands it on

Interpreter::Flow Interpreter::run_if(const Stmt& stmt, Scope& scope) {
  for (const auto& [condition, body] : stmt.branches) {
    if (condition == nullptr || is_true(evaluate(*condition, scope))) return run_body(body, scope);
  }
  return Flow::normal;
}

void Interpreter::run_loop(const Stmt& stmt, Scope& scope, const Value& iterable, int depth) {
  std::vector<Value> items = iterate(iterable);
  if (stmt.condition != nullptr) {
    // The condition is checked for all items first, so that loop.length counts those that remain.
    std::vector<Value> kept;
    for (Value& item : items) {
      ScopeGuard inner(*this, scope);
      assign(stmt.target, item, *inner);
      if (is_true(evaluate(*stmt.condition, *inner))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    run_inner(stmt.other, scope);
    return;
  }
  meter().charge(items.size() * sizeof(Value));
  Loop& loop = heap_.make<Loop>(std::move(items), stmt, scope, depth);
  if (stmt.recursive) scope.captured = true;
  const Symbol name = symbol_of("loop");
  for (; loop.index < loop.items.size(); ++loop.index) {
    meter().step();
    ScopeGuard inner(*this, scope);
    if (name != kNowhere) (*inner).set(name, Value(loop));
    assign(stmt.target, loop.items[loop.index], *inner);
    if (run_body(stmt.body, *inner) == Flow::break_loop) break;
  }
}

Value Interpreter::run_recursive_loop(const Stmt& loop, Scope& scope, const Value& items,
                                      int depth) {
  const Nesting nesting(*this);
  std::string text_out;
  std::string* const outer = std::exchange(out_, &text_out);
  try {
    run_loop(loop, scope, items, depth);
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return text(std::move(text_out));
}

void Interpreter::run_macro_definition(const Stmt& stmt, Scope& scope) {
  meter().charge(512);  // the scope is kept
  scope.captured = true;
  scope.set(stmt.symbol, Value(heap_.make<Macro>(stmt, scope)));
}

void Interpreter::run_call_block(const Stmt& stmt, Scope& scope) {
  meter().charge(512);
  scope.captured = true;
  const Expr& call_expr = *stmt.expr;
  const Value callee = evaluate(*call_expr.items[0], scope);
  CallArguments arguments = evaluate_arguments(call_expr.arguments, scope);
  arguments.named.emplace_back("caller", Value(heap_.make<Macro>(stmt, scope)));
  print(to_text(call(callee, std::move(arguments))));
}

void Interpreter::run_with(const Stmt& stmt, Scope& scope) {
  ScopeGuard inner(*this, scope);
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.assignments) values.push_back(evaluate(*expr, scope));
  for (std::size_t i = 0; i < values.size(); ++i) {
    assign(stmt.assignments[i].first, values[i], *inner);
  }
  run_body(stmt.body, *inner);
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): ScopeGuard's, which owns it or hands it on

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) try {
  if (!target.tuple.empty()) {
    const std::vector<Value> parts = iterate(value);
    if (parts.size() != target.tuple.size()) {
      const bool many = parts.size() > target.tuple.size();
      fail(std::string(many ? "too many" : "not enough") + " values to unpack (expected " +
           std::to_string(target.tuple.size()) +
           (many ? ")" : ", got " + std::to_string(parts.size()) + ")"));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.tuple[i], parts[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    scope.set(target.symbol, value);
    return;
  }
  const Value* holder = nullptr;
  for (Scope* at = &scope; at != nullptr && holder == nullptr; at = at->parent()) {
    holder = at->find(target.symbol);
  }
  if (holder == nullptr || !holder->is(Kind::name_space)) {
    fail("cannot assign attribute on non-namespace object");
  }
  heap_.set(holder->name_space().attributes, text(target.attribute), value);
} catch (Fault& fault) {
  if (fault.at == kNowhere) fault.at = target.at;
  throw;
}

Symbol Interpreter::symbol_of(std::string_view name) const {
  const auto found = std::find(template_.names.begin(), template_.names.end(), name);
  return found == template_.names.end() ? kNowhere
                                        : static_cast<Symbol>(found - template_.names.begin());
}

Value Interpreter::run_macro(const Stmt& macro, Scope& scope, CallArguments arguments) {
  const Nesting nesting(*this);
  ScopeGuard inner(*this, scope);
  bind_parameters(macro, *inner, arguments);
  return text(capture(macro.body, *inner));
}

void Interpreter::bind_parameters(const Stmt& macro, Scope& scope, CallArguments& arguments) {
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (found == arguments.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  const std::optional<Value> caller = take_named("caller");
  std::size_t next = 0;
  for (const Parameter& parameter : macro.parameters) {
    if (next < arguments.positional.size()) {
      if (take_named(parameter.name)) {
        fail("macro '" + macro.text + "' got multiple values for argument '" + parameter.name +
             "'");
      }
      scope.set(parameter.symbol, arguments.positional[next++]);
    } else if (auto value = take_named(parameter.name)) {
      scope.set(parameter.symbol, std::move(*value));
    } else if (parameter.fallback != nullptr) {
      scope.set(parameter.symbol, evaluate(*parameter.fallback, scope));
    } else {
      scope.set(parameter.symbol,
                heap_.undefined("parameter '" + parameter.name + "' was not provided"));
    }
  }
  const std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(next),
                                arguments.positional.end());
  if (macro.uses_varargs) {
    scope.set(symbol_of("varargs"), heap_.list(rest, Kind::tuple));
  } else if (!rest.empty()) {
    fail("macro '" + macro.text + "' takes not more than " +
         std::to_string(macro.parameters.size()) + " argument(s)");
  }
  if (macro.uses_kwargs) {
    Dict& named = heap_.make<Dict>();
    for (const auto& [name, value] : arguments.named) heap_.set(named, text(name), value);
    scope.set(symbol_of("kwargs"), Value(named));
  } else if (!arguments.named.empty()) {
    fail("macro '" + macro.text + "' takes no keyword argument '" + arguments.named[0].first + "'");
  }
  if (macro.uses_caller) {
    scope.set(symbol_of("caller"), caller ? *caller : heap_.undefined("No caller defined"));
  } else if (caller) {
    fail("macro '" + macro.text +
         "' was invoked with two values for the special caller argument, or uses none");
  }
}

}  // namespace verbatim::local_engine::jinja
