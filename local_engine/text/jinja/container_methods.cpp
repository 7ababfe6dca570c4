// The methods of Python's list and dict that templates may call.

#include "local_engine/text/jinja/builtins.hpp"

#include <algorithm>
#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

/// The index that a possibly negative one stands for; a Fault if there is no such item.
std::size_t need_index(std::int64_t index, std::size_t size, const char* message) {
  if (index < 0) index += static_cast<std::int64_t>(size);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) fail(message);
  return static_cast<std::size_t>(index);
}

Value append(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("append", arguments, {"object"});
  interpreter.meter().charge(2 * sizeof(Value));
  self.list().items.push_back(bound.need(0));
  return Value::none();
}

Value extend(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("extend", arguments, {"iterable"});
  const std::vector<Value> more = interpreter.iterate(bound.need(0));
  interpreter.meter().charge(2 * sizeof(Value) * more.size());
  auto& items = self.list().items;
  items.insert(items.end(), more.begin(), more.end());
  return Value::none();
}

Value insert(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("insert", arguments, {"index", "object"});
  bound.need(0);
  auto& items = self.list().items;
  const auto size = static_cast<std::int64_t>(items.size());
  std::int64_t index = bound.integer(0).value_or(0);
  if (index < 0) index += size;
  index = std::clamp<std::int64_t>(index, 0, size);
  interpreter.meter().charge(2 * sizeof(Value));
  interpreter.meter().step(items.size() / 16);
  items.insert(items.begin() + index, bound.need(1));
  return Value::none();
}

Value pop_item(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("pop", arguments, {"index"});
  auto& items = self.list().items;
  if (items.empty()) fail("pop from empty list");
  const std::size_t at =
      need_index(bound.integer(0).value_or(-1), items.size(), "pop index out of range");
  interpreter.meter().step(items.size() / 16);
  Value value = std::move(items[at]);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  return value;
}

std::size_t position(Interpreter& interpreter, const Value& self, const Value& item) {
  const auto& items = self.list().items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& each) {
    return equal(each, item, interpreter.meter());
  });
  return static_cast<std::size_t>(found - items.begin());
}

Value remove_item(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("remove", arguments, {"value"});
  const std::size_t at = position(interpreter, self, bound.need(0));
  auto& items = self.list().items;
  if (at == items.size()) fail("list.remove(x): x not in list");
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  return Value::none();
}

Value index_of(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("index", arguments, {"value"});
  const std::size_t at = position(interpreter, self, bound.need(0));
  if (at == self.list().items.size()) fail("the value is not in list");
  return Value(static_cast<std::int64_t>(at));
}

Value count_items(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("count", arguments, {"value"});
  std::int64_t count = 0;
  for (const Value& item : self.list().items) {
    if (equal(item, bound.need(0), interpreter.meter())) ++count;
  }
  return Value(count);
}

Value reverse_items(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  expect_no_arguments("reverse", arguments);
  auto& items = self.list().items;
  interpreter.meter().step(items.size() / 16);
  std::reverse(items.begin(), items.end());
  return Value::none();
}

Value clear_items(Interpreter&, const Value& self, CallArguments& arguments) {
  expect_no_arguments("clear", arguments);
  self.list().items.clear();
  return Value::none();
}

Value copy_items(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  expect_no_arguments("copy", arguments);
  return interpreter.heap().list(self.list().items);
}

enum class Part { keys, values, items };

template <Part part>
Value view(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  expect_no_arguments("the method", arguments);
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().entries()) {
    if (part == Part::keys) out.push_back(key);
    if (part == Part::values) out.push_back(value);
    if (part == Part::items) out.push_back(interpreter.heap().list({key, value}, Kind::tuple));
  }
  interpreter.meter().step(out.size() / 16);
  return interpreter.heap().list(std::move(out), Kind::view);
}

Value get(Interpreter&, const Value& self, CallArguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"});
  const Value* found = self.dict().find(bound.need(0));
  return found != nullptr ? *found : bound.get_or(1, Value::none());
}

Value pop_key(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("pop", arguments, {"key", "default"});
  const Value* found = self.dict().find(bound.need(0));
  if (found == nullptr) {
    if (bound.get(1) == nullptr) fail("the key to pop is not in the dict");
    return *bound.get(1);
  }
  Value value = *found;
  interpreter.meter().step(self.dict().entries().size());
  self.dict().erase(bound.need(0));
  return value;
}

Value set_default(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  const Bound bound("setdefault", arguments, {"key", "default"});
  if (const Value* found = self.dict().find(bound.need(0))) return *found;
  Value value = bound.get_or(1, Value::none());
  interpreter.heap().set(self.dict(), bound.need(0), value);
  return value;
}

Value update(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  for (const Value& other : arguments.positional) {
    if (!other.is(Kind::dict)) fail("update takes a dict");
    const auto entries = other.dict().entries();  // a copy: it may be the same dict
    for (const auto& [key, value] : entries) interpreter.heap().set(self.dict(), key, value);
  }
  for (const auto& [name, value] : arguments.named) {
    interpreter.heap().set(self.dict(), interpreter.text(name), value);
  }
  return Value::none();
}

Value copy_dict(Interpreter& interpreter, const Value& self, CallArguments& arguments) {
  expect_no_arguments("copy", arguments);
  Dict& out = interpreter.heap().make<Dict>();
  for (const auto& [key, value] : self.dict().entries()) interpreter.heap().set(out, key, value);
  return Value(out);
}

}  // namespace

Method find_list_method(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"append", append},         {"clear", clear_items}, {"copy", copy_items},
      {"count", count_items},     {"extend", extend},     {"index", index_of},
      {"insert", insert},         {"pop", pop_item},      {"remove", remove_item},
      {"reverse", reverse_items},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

Method find_dict_method(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"copy", copy_dict},
      {"get", get},
      {"items", view<Part::items>},
      {"keys", view<Part::keys>},
      {"pop", pop_key},
      {"setdefault", set_default},
      {"update", update},
      {"values", view<Part::values>},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace verbatim::local_engine::jinja
