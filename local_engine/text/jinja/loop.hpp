#pragma once
// The `loop` variable.

#include "local_engine/text/jinja/interpreter.hpp"

namespace verbatim::local_engine::jinja {

/// loop.index and so on; calling a recursive loop's variable runs its body over other items.
class Loop final : public Callable {
 public:
  /// `stmt` and `scope` must outlive the rendering if the loop is recursive.
  Loop(std::vector<Value> list, const Stmt& stmt, Scope& scope, int loop_depth)
      : items(std::move(list)), stmt_(stmt), scope_(scope), depth_(loop_depth) {}

  Value call(Interpreter& interpreter, CallArguments arguments) override;
  [[nodiscard]] Value attribute(Interpreter& interpreter, std::string_view name) override;
  [[nodiscard]] std::string describe() const override { return "loop"; }

  /// The values of the last loop.changed(); compares and remembers.
  [[nodiscard]] bool changed(Interpreter& interpreter, std::vector<Value> values);

  std::vector<Value> items;
  std::size_t index = 0;

 private:
  const Stmt& stmt_;
  Scope& scope_;
  int depth_;  // 0 for the outermost of a recursive loop
  bool compared_ = false;
  std::vector<Value> last_;
};

}  // namespace verbatim::local_engine::jinja
