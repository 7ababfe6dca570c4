#include "local_engine/text/jinja/loop.hpp"

#include <algorithm>

namespace verbatim::local_engine::jinja {

namespace {

/// loop.cycle and loop.changed.
class LoopMethod final : public Callable {
 public:
  LoopMethod(Loop& loop, bool cycle) : loop_(loop), cycle_(cycle) {}
  Value call(Interpreter& interpreter, CallArguments arguments) override {
    if (!arguments.named.empty()) fail("a method of loop takes no keyword arguments");
    if (!cycle_) return Value(loop_.changed(interpreter, std::move(arguments.positional)));
    if (arguments.positional.empty()) fail("no items for cycling given");
    return arguments.positional[loop_.index % arguments.positional.size()];
  }
  [[nodiscard]] std::string describe() const override {
    return cycle_ ? "loop.cycle" : "loop.changed";
  }

 private:
  Loop& loop_;
  bool cycle_;
};

}  // namespace

Value Loop::call(Interpreter& interpreter, CallArguments arguments) {
  if (!stmt_.recursive) fail("the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail("loop() takes exactly one argument");
  }
  return interpreter.run_recursive_loop(stmt_, scope_, arguments.positional[0], depth_ + 1);
}

Value Loop::attribute(Interpreter& interpreter, std::string_view name) {
  const auto size = static_cast<std::int64_t>(items.size());
  const auto at = static_cast<std::int64_t>(index);
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "revindex") return Value(size - at);
  if (name == "revindex0") return Value(size - at - 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(std::int64_t{depth_} + 1);
  if (name == "depth0") return Value(std::int64_t{depth_});
  if (name == "previtem") {
    return at > 0 ? items[index - 1] : interpreter.heap().undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return at + 1 < size ? items[index + 1] : interpreter.heap().undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    return Value(interpreter.heap().make<LoopMethod>(*this, name == "cycle"));
  }
  return {};
}

bool Loop::changed(Interpreter& interpreter, std::vector<Value> values) {
  const bool same =
      compared_ && values.size() == last_.size() &&
      std::equal(values.begin(), values.end(), last_.begin(),
                 [&](const Value& a, const Value& b) { return equal(a, b, interpreter.meter()); });
  compared_ = true;
  if (!same) last_ = std::move(values);
  return !same;
}

}  // namespace verbatim::local_engine::jinja
