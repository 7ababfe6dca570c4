#include "local_engine/text/jinja/sequence_filters.hpp"

#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

Value generator(Interpreter& interpreter, std::vector<Value> items) {
  return interpreter.heap().list(std::move(items), Kind::generator);
}

/// item.a.0.b: each part a key, or an index if it is a number. `fallback` stands in for a part that is missing.
Value get_path(Interpreter& interpreter, Value item, const Value& path, const Value* fallback) {
  if (path.is(Kind::integer)) return interpreter.subscript(item, path);
  const std::string text = to_text(path);  // the parts are views into it
  for (const std::string_view part : split(text, ".", -1)) {
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        error == std::errc() && end == part.data() + part.size() && part[0] != '-';
    item =
        interpreter.subscript(item, is_index ? Value(index) : interpreter.text(std::string(part)));
    if (fallback != nullptr && !fallback->is(Kind::none) && item.is(Kind::undefined))
      item = *fallback;
  }
  return item;
}

/// What items are compared by: an attribute if one is given, and lower case unless case matters.
class SortKey {
 public:
  SortKey(Interpreter& interpreter, const Value* attribute, bool case_sensitive)
      : interpreter_(interpreter), case_sensitive_(case_sensitive) {
    if (attribute == nullptr || attribute->is(Kind::none)) return;
    if (attribute->is(Kind::string)) {
      for (const std::string_view part : split(attribute->str(), ",", -1)) {
        paths_.push_back(interpreter.text(std::string(part)));
      }
    } else {
      paths_.push_back(*attribute);
    }
  }
  /// One value for each path; none given: the item itself.
  [[nodiscard]] Value operator()(const Value& item) const {
    if (paths_.empty()) return fold(item);
    if (paths_.size() == 1) return fold(get_path(interpreter_, item, paths_[0], nullptr));
    std::vector<Value> values;
    for (const Value& path : paths_)
      values.push_back(fold(get_path(interpreter_, item, path, nullptr)));
    return interpreter_.heap().list(std::move(values), Kind::tuple);
  }

 private:
  [[nodiscard]] Value fold(const Value& value) const {
    return value.is(Kind::string) && !case_sensitive_ ? interpreter_.text(to_lower(value.str()))
                                                      : value;
  }
  Interpreter& interpreter_;
  bool case_sensitive_;
  std::vector<Value> paths_;
};

/// Stable. A comparison may throw, which std::stable_sort survives.
std::vector<Value> sorted(Interpreter& interpreter, const std::vector<Value>& items,
                          const SortKey& key, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(items.size());
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, interpreter.meter())
                   : less(a.first, b.first, interpreter.meter());
  });
  std::vector<Value> out;
  out.reserve(items.size());
  for (auto& each : keyed) out.push_back(std::move(each.second));
  return out;
}

Value sort(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const SortKey key(interpreter, bound.get(2), bound.flag(1, false));
  return interpreter.heap().list(
      sorted(interpreter, interpreter.iterate(value), key, bound.flag(0, false)));
}

Value dictsort(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!value.is(Kind::dict))
    fail(std::string("dictsort takes a dict, not ") + type_name(defined(value)));
  const std::string by = bound.text(1).value_or("key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> items;
  for (const auto& [key, item] : value.dict().entries()) {
    items.push_back(interpreter.heap().list({key, item}, Kind::tuple));
  }
  const Value index(std::int64_t{by == "key" ? 0 : 1});
  const SortKey key(interpreter, &index, bound.flag(0, false));
  return interpreter.heap().list(sorted(interpreter, items, key, bound.flag(2, false)));
}

template <bool largest>
Value extreme(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> items = interpreter.iterate(value);
  if (items.empty()) return interpreter.heap().undefined("No aggregated item, sequence was empty.");
  const SortKey key(interpreter, bound.get(1), bound.flag(0, false));
  std::size_t best = 0;
  Value best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value other = key(items[i]);
    const bool better = largest ? less(best_key, other, interpreter.meter())
                                : less(other, best_key, interpreter.meter());
    if (!better) continue;
    best = i;
    best_key = std::move(other);
  }
  return items[best];
}

Value unique(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const SortKey key(interpreter, bound.get(1), bound.flag(0, false));
  std::vector<Value> seen;
  std::vector<Value> out;
  for (const Value& item : interpreter.iterate(value)) {
    Value item_key = key(item);
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& each) {
      return equal(each, item_key, interpreter.meter());
    });
    if (known) continue;
    seen.push_back(std::move(item_key));
    out.push_back(item);
  }
  return generator(interpreter, std::move(out));
}

Value group_by(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"});
  const Value path = bound.need(0);
  std::vector<Value> items = interpreter.iterate(value);
  const auto key_of = [&](const Value& item) {
    return get_path(interpreter, item, path, bound.get(1));
  };
  const auto folded = [&](const Value& key) {
    return key.is(Kind::string) && !bound.flag(2, false) ? interpreter.text(to_lower(key.str()))
                                                         : key;
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) keyed.emplace_back(folded(key_of(item)), std::move(item));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return less(a.first, b.first, interpreter.meter());
  });
  std::vector<Value> out;
  for (std::size_t i = 0; i < keyed.size();) {
    std::vector<Value> group;
    const std::size_t first = i;
    while (i < keyed.size() && equal(keyed[i].first, keyed[first].first, interpreter.meter())) {
      group.push_back(keyed[i++].second);
    }
    const Value key = key_of(group[0]);
    out.push_back(
        interpreter.heap().list({key, interpreter.heap().list(std::move(group))}, Kind::tuple));
  }
  return interpreter.heap().list(std::move(out));
}

Value join(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const std::string separator = bound.get(0) == nullptr ? "" : to_text(*bound.get(0));
  const Value* path = bound.get(1);
  std::string out;
  bool first = true;
  for (const Value& item : interpreter.iterate(value)) {
    if (!first) out += separator;
    first = false;
    out += to_text(path == nullptr || path->is(Kind::none)
                       ? item
                       : get_path(interpreter, item, *path, nullptr));
    if (out.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
  }
  return interpreter.text(std::move(out));
}

Value first(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("first", arguments);
  if (value.is(Kind::generator)) {
    List& list = value.list();
    if (list.consumed < list.items.size()) return list.items[list.consumed++];
  } else {
    const std::vector<Value> items = interpreter.iterate(value);
    if (!items.empty()) return items.front();
  }
  return interpreter.heap().undefined("No first item, sequence was empty.");
}

Value last(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("last", arguments);
  if (value.is(Kind::generator)) fail("'generator' object is not reversible");
  const std::vector<Value> items = interpreter.iterate(value);
  if (!items.empty()) return items.back();
  return interpreter.heap().undefined("No last item, sequence was empty.");
}

Value length_filter(Interpreter&, const Value& value, CallArguments& arguments) {
  expect_no_arguments("length", arguments);
  return Value(static_cast<std::int64_t>(length(value)));
}

Value list_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("list", arguments);
  return interpreter.heap().list(interpreter.iterate(value));
}

Value reverse(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("reverse", arguments);
  if (value.is(Kind::string)) {
    const Value minus_one(std::int64_t{-1});
    return slice(interpreter, value, Value::none(), Value::none(), minus_one);
  }
  std::vector<Value> items = interpreter.iterate(value);
  std::reverse(items.begin(), items.end());
  return generator(interpreter, std::move(items));
}

Value items_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  expect_no_arguments("items", arguments);
  std::vector<Value> out;
  if (value.is(Kind::dict)) {
    for (const auto& [key, item] : value.dict().entries()) {
      out.push_back(interpreter.heap().list({key, item}, Kind::tuple));
    }
  } else if (!value.is(Kind::undefined)) {
    fail("Can only get item pairs from a mapping.");
  }
  return generator(interpreter, std::move(out));
}

/// map, select and the like take anything that counts as false for an empty sequence, None too.
std::vector<Value> iterate_if_true(Interpreter& interpreter, const Value& value) {
  return is_true(value) ? interpreter.iterate(value) : std::vector<Value>();
}

/// The arguments after the first `count`.
CallArguments rest_of(CallArguments& arguments, std::size_t count) {
  CallArguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    for (const Value& item : iterate_if_true(interpreter, value)) {
      out.push_back(get_path(interpreter, item, bound.need(0), bound.get(1)));
    }
    return generator(interpreter, std::move(out));
  }
  const std::string name = to_text(arguments.positional[0]);
  for (const Value& item : iterate_if_true(interpreter, value)) {
    out.push_back(interpreter.filter(name, item, rest_of(arguments, 1)));
  }
  return generator(interpreter, std::move(out));
}

/// select, reject, selectattr, rejectattr: by the truth of the item or its attribute, or by a test.
template <bool keep, bool by_attribute>
Value select(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  constexpr std::size_t kTest = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) fail("Missing parameter for attribute name");
  std::vector<Value> out;
  for (const Value& item : iterate_if_true(interpreter, value)) {
    const Value subject =
        by_attribute ? get_path(interpreter, item, arguments.positional[0], nullptr) : item;
    const bool holds = arguments.positional.size() > kTest
                           ? interpreter.test(to_text(arguments.positional[kTest]), subject,
                                              rest_of(arguments, kTest + 1))
                           : is_true(subject);
    if (holds == keep) out.push_back(item);
  }
  return generator(interpreter, std::move(out));
}

Value sum(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Value total = bound.get_or(1, Value(std::int64_t{0}));
  const Value* path = bound.get(0);
  for (const Value& item : interpreter.iterate(value)) {
    const bool whole = path == nullptr || path->is(Kind::none);
    total = arithmetic(interpreter, Op::add, total,
                       whole ? item : get_path(interpreter, item, *path, nullptr));
  }
  return total;
}

Value batch(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"});
  bound.need(0);
  const auto size =
      static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0).value_or(1), 1, 100000));
  const Value* fill = bound.get(1);
  std::vector<Value> out;
  std::vector<Value> row;
  for (const Value& item : interpreter.iterate(value)) {
    if (row.size() == size) out.push_back(interpreter.heap().list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    while (fill != nullptr && !fill->is(Kind::none) && row.size() < size) row.push_back(*fill);
    out.push_back(interpreter.heap().list(std::move(row)));
  }
  return generator(interpreter, std::move(out));
}

Value slice_filter(Interpreter& interpreter, const Value& value, CallArguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"});
  bound.need(0);
  const auto slices =
      static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0).value_or(1), 1, 100000));
  const Value* fill = bound.get(1);
  const std::vector<Value> items = interpreter.iterate(value);
  const std::size_t each = items.size() / slices;
  const std::size_t longer = items.size() % slices;
  std::vector<Value> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(at),
                           items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (fill != nullptr && !fill->is(Kind::none) && i >= longer) row.push_back(*fill);
    out.push_back(interpreter.heap().list(std::move(row)));
  }
  return generator(interpreter, std::move(out));
}

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"batch", batch},
      {"count", length_filter},
      {"dictsort", dictsort},
      {"first", first},
      {"groupby", group_by},
      {"items", items_filter},
      {"join", join},
      {"last", last},
      {"length", length_filter},
      {"list", list_filter},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", select<false, false>},
      {"rejectattr", select<false, true>},
      {"reverse", reverse},
      {"select", select<true, false>},
      {"selectattr", select<true, true>},
      {"slice", slice_filter},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace verbatim::local_engine::jinja
