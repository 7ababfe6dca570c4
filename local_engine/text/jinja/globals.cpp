// The functions that every template finds.

#include "local_engine/text/jinja/builtins.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/strftime.hpp"

#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

constexpr std::int64_t kRangeMax = 100'000;  // Jinja's sandbox has the same

using Function = Value (*)(Interpreter&, CallArguments&);

class GlobalFunction final : public Callable {
 public:
  GlobalFunction(std::string name, Function function)
      : name_(std::move(name)), function_(function) {}
  Value call(Interpreter& interpreter, CallArguments arguments) override {
    return function_(interpreter, arguments);
  }
  [[nodiscard]] std::string describe() const override { return name_; }

 private:
  std::string name_;
  Function function_;
};

Value range(Interpreter& interpreter, CallArguments& arguments) {
  const std::size_t count = arguments.positional.size();
  const Bound bound("range", arguments, {"start", "stop", "step"});
  for (std::size_t i = 0; i < count; ++i) {
    if (!bound.integer(i)) fail("range takes integers");
  }
  if (count == 0) fail("range expected at least 1 argument, got 0");
  const std::int64_t start = count == 1 ? 0 : *bound.integer(0);
  const std::int64_t stop = *bound.integer(count == 1 ? 0 : 1);
  const std::int64_t step = count == 3 ? *bound.integer(2) : 1;
  if (step == 0) fail("range() arg 3 must not be zero");
  Range& made = interpreter.heap().make<Range>(start, stop, step);
  if (made.size() < 0 || made.size() > kRangeMax) {
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return Value(made);
}

/// dict(mapping or pairs, name=value, ...)
Dict& make_dict(Interpreter& interpreter, CallArguments& arguments) {
  Dict& dict = interpreter.heap().make<Dict>();
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument");
  for (const Value& from : arguments.positional) {
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.dict().entries())
        interpreter.heap().set(dict, key, value);
      continue;
    }
    for (const Value& item : interpreter.iterate(from)) {
      const std::vector<Value> pair = interpreter.iterate(item);
      if (pair.size() != 2) fail("a dict is made from pairs");
      interpreter.heap().set(dict, pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    interpreter.heap().set(dict, interpreter.text(name), value);
  }
  return dict;
}

Value dict(Interpreter& interpreter, CallArguments& arguments) {
  return Value(make_dict(interpreter, arguments));
}

Value name_space(Interpreter& interpreter, CallArguments& arguments) {
  return Value(interpreter.heap().make<Namespace>(make_dict(interpreter, arguments)));
}

Value raise_exception(Interpreter&, CallArguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"});
  raise(to_text(bound.need(0)));
}

Value strftime_now(Interpreter& interpreter, CallArguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"});
  bound.need(0);
  return interpreter.text(format_time(bound.text(0).value_or(""), interpreter.now_us()));
}

/// cycler(a, b, c): next() gives one after the other, current the one that is next.
class Cycler final : public Callable {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  Value call(Interpreter&, CallArguments) override { fail("'Cycler' object is not callable"); }
  [[nodiscard]] Value attribute(Interpreter& interpreter, std::string_view name) override {
    if (name == "current") return items_[next_];
    if (name == "next") return Value(interpreter.heap().make<Step>(*this, true));
    if (name == "reset") return Value(interpreter.heap().make<Step>(*this, false));
    return {};
  }
  [[nodiscard]] std::string describe() const override { return "cycler"; }

 private:
  class Step final : public Callable {
   public:
    Step(Cycler& cycler, bool next) : cycler_(cycler), next_(next) {}
    Value call(Interpreter&, CallArguments) override {
      if (!next_) {
        cycler_.next_ = 0;
        return Value::none();
      }
      const Value& value = cycler_.items_[cycler_.next_];
      cycler_.next_ = (cycler_.next_ + 1) % cycler_.items_.size();
      return value;
    }
    [[nodiscard]] std::string describe() const override { return "cycler.next"; }

   private:
    Cycler& cycler_;
    bool next_;
  };
  std::vector<Value> items_;
  std::size_t next_ = 0;
};

Value cycler(Interpreter& interpreter, CallArguments& arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  return Value(interpreter.heap().make<Cycler>(std::move(arguments.positional)));
}

/// joiner(", "): nothing at the first call, the separator at the later ones.
class Joiner final : public Callable {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  Value call(Interpreter& interpreter, CallArguments) override {
    if (used_) return separator_;
    used_ = true;
    return interpreter.text("");
  }
  [[nodiscard]] std::string describe() const override { return "joiner"; }

 private:
  Value separator_;
  bool used_ = false;
};

Value joiner(Interpreter& interpreter, CallArguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  return Value(interpreter.heap().make<Joiner>(bound.get_or(0, interpreter.text(", "))));
}

}  // namespace

void raise(const std::string& message) { throw Fault{Errc::invalid_input, message, kNowhere}; }

Value find_global(Interpreter& interpreter, std::string_view name) {
  static const std::unordered_map<std::string_view, Function> kFunctions = {
      {"cycler", cycler},
      {"dict", dict},
      {"joiner", joiner},
      {"namespace", name_space},
      {"raise_exception", raise_exception},
      {"range", range},
      {"strftime_now", strftime_now},
  };
  const auto found = kFunctions.find(name);
  if (found == kFunctions.end()) return {};
  return Value(interpreter.heap().make<GlobalFunction>(std::string(name), found->second));
}

}  // namespace verbatim::local_engine::jinja
