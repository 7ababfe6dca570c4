#pragma once
// Runs a parsed template.

#include "local_engine/text/jinja/ast.hpp"
#include "local_engine/text/jinja/value.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::local_engine::jinja {

/// Variables of one block of a template, and the block around it.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}
  [[nodiscard]] Scope* parent() const { return parent_; }
  [[nodiscard]] const Value* find(Symbol symbol) const {
    for (const auto& [name, value] : variables_) {
      if (name == symbol) return &value;
    }
    return nullptr;
  }
  void set(Symbol symbol, Value value) {
    for (auto& [name, known] : variables_) {
      if (name == symbol) {
        known = std::move(value);
        return;
      }
    }
    variables_.emplace_back(symbol, std::move(value));
  }
  [[nodiscard]] std::size_t size() const { return variables_.size(); }
  bool captured = false;  ///< a macro refers to it, so it must outlive its block

 private:
  Scope* parent_;
  std::vector<std::pair<Symbol, Value>> variables_;
};

/// One rendering. Everything that functions, filters and tests need is here.
class Interpreter {
 public:
  /// `now_us` is what strftime_now sees. All references must outlive this.
  Interpreter(const Template& source, Heap& heap, std::int64_t now_us)
      : template_(source), heap_(heap), now_us_(now_us) {}

  /// Makes a variable of the template's context.
  void define(std::string_view name, Value value);
  /// Throws Fault, with a position.
  [[nodiscard]] std::string run();

  [[nodiscard]] Heap& heap() { return heap_; }
  [[nodiscard]] Meter& meter() { return heap_.meter(); }
  [[nodiscard]] std::int64_t now_us() const { return now_us_; }
  [[nodiscard]] Value text(std::string text, bool safe = false) {
    return heap_.text(std::move(text), safe);
  }

  // What functions and filters do with values.

  /// The items that a loop over `value` sees; a generator is used up. A Fault for what cannot be iterated.
  [[nodiscard]] std::vector<Value> iterate(const Value& value);
  /// value.name, or an undefined value.
  [[nodiscard]] Value attribute(const Value& value, std::string_view name);
  /// value[key], or an undefined value.
  [[nodiscard]] Value subscript(const Value& value, const Value& key);
  [[nodiscard]] Value call(const Value& callee, CallArguments arguments);
  [[nodiscard]] Value filter(std::string_view name, const Value& value, CallArguments arguments);
  [[nodiscard]] bool test(std::string_view name, const Value& value, CallArguments arguments);

  /// Runs a macro's body in a scope within `scope`, which is the macro's own, and returns what it printed.
  [[nodiscard]] Value run_macro(const Stmt& macro, Scope& scope, CallArguments arguments);
  /// Runs a loop's body over `items` (recursive loops call this) and returns what it printed.
  [[nodiscard]] Value run_recursive_loop(const Stmt& loop, Scope& scope, const Value& items,
                                         int depth);

 private:
  enum class Flow { normal, break_loop, continue_loop };
  class Nesting;
  class ScopeGuard;

  Flow run_body(const Body& body, Scope& scope);
  Flow run_statement(const Stmt& stmt, Scope& scope);
  Flow run_if(const Stmt& stmt, Scope& scope);
  void run_loop(const Stmt& stmt, Scope& scope, const Value& iterable, int depth);
  void run_macro_definition(const Stmt& stmt, Scope& scope);
  void run_call_block(const Stmt& stmt, Scope& scope);
  void run_with(const Stmt& stmt, Scope& scope);
  Flow run_inner(const Body& body, Scope& scope);
  [[nodiscard]] std::string capture(const Body& body, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);
  void print(std::string_view text);

  Value evaluate(const Expr& expr, Scope& scope);
  Value evaluate_node(const Expr& expr, Scope& scope);
  Value evaluate_name(const Expr& expr, Scope& scope);
  Value evaluate_comparison(const Expr& expr, Scope& scope);
  Value evaluate_subscript(const Expr& expr, Scope& scope);
  Value evaluate_call(const Expr& expr, Scope& scope);
  Value evaluate_filter(const Expr& expr, const Value& value, Scope& scope);
  Value evaluate_filters_of_block(const Expr& expr, const Value& text, Scope& scope);
  std::vector<Value> evaluate_items(const std::vector<ExprPtr>& items, Scope& scope);
  CallArguments evaluate_arguments(const Arguments& arguments, Scope& scope);
  void bind_parameters(const Stmt& macro, Scope& scope, CallArguments& arguments);
  Symbol symbol_of(std::string_view name) const;

  const Template& template_;
  Heap& heap_;
  std::int64_t now_us_;
  std::vector<std::pair<std::string, Value>> context_;
  std::vector<std::unique_ptr<Scope>> kept_scopes_;  // captured by macros
  std::string* out_ = nullptr;
  int depth_ = 0;
};

}  // namespace verbatim::local_engine::jinja
