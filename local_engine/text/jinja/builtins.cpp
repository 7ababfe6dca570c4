#include "local_engine/text/jinja/builtins.hpp"

#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"

#include <algorithm>

namespace verbatim::local_engine::jinja {

namespace {

/// A method and the value it belongs to.
class BoundMethod final : public Callable {
 public:
  BoundMethod(Value self, Method method, std::string name)
      : self_(std::move(self)), method_(method), name_(std::move(name)) {}
  Value call(Interpreter& interpreter, CallArguments arguments) override {
    if (self_.is(Kind::string)) interpreter.meter().step(self_.str().size() / 64);
    return method_(interpreter, self_, arguments);
  }
  [[nodiscard]] std::string describe() const override { return name_; }

 private:
  Value self_;
  Method method_;
  std::string name_;
};

}  // namespace

Value bound_method(Interpreter& interpreter, const Value& value, std::string_view name) {
  const Method method = value.is(Kind::string) ? find_text_method(name)
                        : value.is(Kind::list) ? find_list_method(name)
                                               : find_dict_method(name);
  if (method == nullptr) return {};
  return Value(interpreter.heap().make<BoundMethod>(value, method, std::string(name)));
}

std::string checked_replace(std::string_view text, std::string_view from, std::string_view to,
                            std::int64_t limit) {
  std::size_t matches = count_matches(text, from);
  if (limit >= 0) matches = std::min(matches, static_cast<std::size_t>(limit));
  if (!to.empty() && matches > kTextBytesMax / to.size()) fail("a text is larger than 16 MiB");
  std::string out = replace(text, from, to, limit);
  if (out.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
  return out;
}

Bound::Bound(std::string_view function, CallArguments& arguments,
             std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    fail(function_ + " takes at most " + std::to_string(names_.size()) + " argument(s), got " +
         std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
  }
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      fail(function_ + " got an unexpected keyword argument '" + name + "'");
    }
    auto& slot = values_[static_cast<std::size_t>(found - names_.begin())];
    if (slot) fail(function_ + " got multiple values for argument '" + name + "'");
    slot = std::move(value);
  }
}

void expect_no_arguments(std::string_view function, CallArguments& arguments) {
  const Bound none(function, arguments, {});
}

const Value& Bound::need(std::size_t index) const {
  if (!values_[index]) {
    fail(function_ + " is missing the argument '" + std::string(names_[index]) + "'");
  }
  return *values_[index];
}

std::optional<std::string> Bound::text(std::size_t index) const {
  if (!values_[index] || values_[index]->is(Kind::none)) return std::nullopt;
  if (!values_[index]->is(Kind::string)) {
    fail(function_ + ": '" + std::string(names_[index]) + "' must be str, not " +
         type_name(defined(*values_[index])));
  }
  return values_[index]->str();
}

std::optional<std::int64_t> Bound::integer(std::size_t index) const {
  if (!values_[index] || values_[index]->is(Kind::none)) return std::nullopt;
  if (!values_[index]->is_integer()) {
    fail(function_ + ": '" + std::string(names_[index]) + "' must be int, not " +
         type_name(defined(*values_[index])));
  }
  return values_[index]->integer();
}

bool Bound::flag(std::size_t index, bool fallback) const {
  return values_[index] ? is_true(*values_[index]) : fallback;
}

}  // namespace verbatim::local_engine::jinja
