#pragma once
// The names that every template finds: filters, tests, functions, and the methods of texts, lists and dicts.

#include "local_engine/text/jinja/interpreter.hpp"
#include "local_engine/text/jinja/value.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::local_engine::jinja {

using Filter = Value (*)(Interpreter&, const Value&, CallArguments&);
using Test = bool (*)(Interpreter&, const Value&, CallArguments&);
using Method = Value (*)(Interpreter&, const Value&, CallArguments&);

/// Null when there is none of that name.
[[nodiscard]] Filter find_filter(std::string_view name);
[[nodiscard]] Test find_test(std::string_view name);
[[nodiscard]] Method find_text_method(std::string_view name);
[[nodiscard]] Method find_list_method(std::string_view name);
[[nodiscard]] Method find_dict_method(std::string_view name);

/// range, namespace, dict, cycler, joiner, raise_exception, strftime_now, ...; undefined when there is none.
[[nodiscard]] Value find_global(Interpreter& interpreter, std::string_view name);

/// What raise_exception throws: the message, to be reported as it is.
[[noreturn]] void raise(const std::string& message);

/// `value`'s method of that name, ready to be called; undefined when there is none.
[[nodiscard]] Value bound_method(Interpreter& interpreter, const Value& value,
                                 std::string_view name);

/// str.replace(), with a Fault instead of a text beyond kTextBytesMax.
[[nodiscard]] std::string checked_replace(std::string_view text, std::string_view from,
                                          std::string_view to, std::int64_t limit);

/// Arguments by name. Positional ones are given to `names` in order; too many, or a name that is not in `names`,
/// is a Fault.
class Bound {
 public:
  Bound(std::string_view function, CallArguments& arguments,
        std::initializer_list<std::string_view> names);
  /// Null when the argument was not given.
  [[nodiscard]] const Value* get(std::size_t index) const {
    return values_[index] ? &*values_[index] : nullptr;
  }
  /// A Fault when it was not given.
  const Value& need(std::size_t index) const;
  [[nodiscard]] Value get_or(std::size_t index, const Value& fallback) const {
    return values_[index] ? *values_[index] : fallback;
  }
  // With a Fault for a value of another type; None counts as not given.
  [[nodiscard]] std::optional<std::string> text(std::size_t index) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::size_t index) const;
  [[nodiscard]] bool flag(std::size_t index, bool fallback) const;

 private:
  std::string function_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

/// A Fault when any argument was given.
void expect_no_arguments(std::string_view function, CallArguments& arguments);

}  // namespace verbatim::local_engine::jinja
