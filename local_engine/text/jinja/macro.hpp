#pragma once
// A macro, or the body of a call block: a Callable that runs template code.

#include "local_engine/text/jinja/interpreter.hpp"

namespace verbatim::local_engine::jinja {

class Macro final : public Callable {
 public:
  /// Both must outlive the rendering; a captured scope does.
  Macro(const Stmt& stmt, Scope& scope) : stmt_(stmt), scope_(scope) {}
  Value call(Interpreter& interpreter, CallArguments arguments) override {
    return interpreter.run_macro(stmt_, scope_, std::move(arguments));
  }
  [[nodiscard]] Value attribute(Interpreter& interpreter, std::string_view name) override {
    if (name == "name") return interpreter.text(stmt_.text);
    if (name == "catch_kwargs") return Value(stmt_.uses_kwargs);
    if (name == "catch_varargs") return Value(stmt_.uses_varargs);
    if (name == "caller") return Value(stmt_.uses_caller);
    if (name == "arguments") {
      std::vector<Value> names;
      for (const Parameter& parameter : stmt_.parameters) {
        names.push_back(interpreter.text(parameter.name));
      }
      return interpreter.heap().list(std::move(names), Kind::tuple);
    }
    return {};
  }
  [[nodiscard]] std::string describe() const override { return "macro " + stmt_.text; }

 private:
  const Stmt& stmt_;
  Scope& scope_;
};

}  // namespace verbatim::local_engine::jinja
