#include "local_engine/text/jinja/value.hpp"

#include "local_engine/text/jinja/python_text.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::local_engine::jinja {

namespace {

void check_depth(int depth) {
  if (depth > kDepthMax) fail("a value is nested too deeply");
}

/// Items as they stand, without what is gone of a generator.
std::pair<const Value*, const Value*> items_of(const Value& value) {
  const List& list = value.list();
  return {list.items.data() + list.consumed, list.items.data() + list.items.size()};
}

bool equal_numbers(const Value& left, const Value& right) {
  if (left.is(Kind::big) || right.is(Kind::big)) {
    return left.is(Kind::big) && right.is(Kind::big) ? left.big() == right.big()
                                                     : left.as_real() == right.as_real();
  }
  if (left.is(Kind::real) || right.is(Kind::real)) return left.as_real() == right.as_real();
  return left.integer() == right.integer();
}

bool less_numbers(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return left.integer() < right.integer();
  if (left.is(Kind::big) && right.is(Kind::big)) return left.big() < right.big();
  return left.as_real() < right.as_real();
}

bool equal_lists(const Value& left, const Value& right, Meter& meter, int depth) {
  const auto [left_begin, left_end] = items_of(left);
  const auto [right_begin, right_end] = items_of(right);
  if (left_end - left_begin != right_end - right_begin) return false;
  return std::equal(left_begin, left_end, right_begin,
                    [&](const Value& a, const Value& b) { return equal(a, b, meter, depth + 1); });
}

bool equal_dicts(const Dict& left, const Dict& right, Meter& meter, int depth) {
  if (left.entries().size() != right.entries().size()) return false;
  for (const auto& [key, value] : left.entries()) {
    const Value* other = right.find(key);
    if (other == nullptr || !equal(value, *other, meter, depth + 1)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  const std::int64_t size = left.size();
  if (size != right.size()) return false;
  return size == 0 || (left.start == right.start && (size == 1 || left.step == right.step));
}

}  // namespace

Value::Value(Object& object) : kind_(object.kind()) { number_.object = &object; }

double Value::as_real() const {
  if (kind_ == Kind::real) return number_.real;
  if (kind_ == Kind::big) return static_cast<double>(big());
  return static_cast<double>(number_.integer);
}

List& Value::list() const { return static_cast<List&>(*number_.object); }
Dict& Value::dict() const { return static_cast<Dict&>(*number_.object); }
Range& Value::range() const { return static_cast<Range&>(*number_.object); }
Namespace& Value::name_space() const { return static_cast<Namespace&>(*number_.object); }
Callable& Value::callable() const { return static_cast<Callable&>(*number_.object); }

Value Callable::attribute(Interpreter& /*interpreter*/, std::string_view /*name*/) { return {}; }

std::size_t Dict::index_of(std::string_view key) const {
  const auto found = by_text_.find(key);
  return found == by_text_.end() ? kNone : found->second;
}

std::size_t Dict::index_of(const Value& key) const {
  if (key.is(Kind::string)) return index_of(key.str());
  if (only_texts_) return kNone;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Value& known = entries_[i].first;
    if (known.is_number() && key.is_number() && equal_numbers(known, key)) return i;
    if (known.is(Kind::none) && key.is(Kind::none)) return i;
  }
  return kNone;
}

const Value* Dict::find(const Value& key) const {
  const std::size_t at = index_of(key);
  return at == kNone ? nullptr : &entries_[at].second;
}

const Value* Dict::find(std::string_view key) const {
  const std::size_t at = index_of(key);
  return at == kNone ? nullptr : &entries_[at].second;
}

void Dict::set(const Value& key, const Value& value) {
  if (!key.is(Kind::string) && !key.is_number() && !key.is(Kind::none)) {
    fail(std::string("a dict key of type '") + type_name(key) + "' is not supported");
  }
  const std::size_t at = index_of(key);
  if (at != kNone) {
    entries_[at].second = value;
    return;
  }
  if (key.is(Kind::string)) {
    by_text_.emplace(key.str(), entries_.size());
  } else {
    only_texts_ = false;
  }
  entries_.emplace_back(key, value);
}

bool Dict::erase(const Value& key) {
  const std::size_t at = index_of(key);
  if (at == kNone) return false;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  by_text_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first.is(Kind::string)) by_text_.emplace(entries_[i].first.str(), i);
  }
  return true;
}

std::int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto distance = step > 0
                            ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                            : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const auto by =
      step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return static_cast<std::int64_t>((distance - 1) / by + 1);
}

Value Heap::from_json(const OrderedJson& json, int depth) {
  check_depth(depth);
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Value(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      return number > 0x7fffffffffffffffU ? Value::big(number)
                                          : Value(static_cast<std::int64_t>(number));
    }
    case OrderedJson::value_t::number_float:
      return Value(json.get<double>());
    case OrderedJson::value_t::string: {
      const auto& bytes = json.get_ref<const std::string&>();
      if (!is_utf8(bytes)) fail("a text of the request is not UTF-8");
      return text(bytes);
    }
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(from_json(item, depth + 1));
      return list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict& dict = make<Dict>();
      for (const auto& [key, value] : json.items()) {
        if (!is_utf8(key)) fail("a key of the request is not UTF-8");
        set(dict, text(key), from_json(value, depth + 1));
      }
      return Value(dict);
    }
    default:
      return Value::none();
  }
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::generator:
      return "generator";
    case Kind::view:
      return "dict view";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::name_space:
      return "Namespace";
    case Kind::callable:
      return "function";
  }
  return "";
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.integer() != 0;
    case Kind::real:
      return value.real() != 0.0;
    case Kind::string:
      return !value.str().empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return !value.list().items.empty();
    case Kind::dict:
      return !value.dict().entries().empty();
    case Kind::range:
      return value.range().size() != 0;
    case Kind::big:
    case Kind::generator:
    case Kind::name_space:
    case Kind::callable:
      return true;
  }
  return false;
}

bool equal(const Value& left, const Value& right, Meter& meter, int depth) {
  check_depth(depth);
  meter.step();
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      if (left.str().size() != right.str().size()) return false;
      meter.step(left.str().size() / 256);
      return left.str() == right.str();
    case Kind::list:
    case Kind::tuple:
      return &left.object() == &right.object() || equal_lists(left, right, meter, depth);
    case Kind::dict:
      return &left.object() == &right.object() ||
             equal_dicts(left.dict(), right.dict(), meter, depth);
    case Kind::range:
      return equal_ranges(left.range(), right.range());
    default:
      return &left.object() == &right.object();
  }
}

bool less(const Value& left, const Value& right, Meter& meter, int depth) {
  check_depth(depth);
  meter.step();
  defined(left);
  defined(right);
  if (left.is_number() && right.is_number()) return less_numbers(left, right);
  // UTF-8 sorts as code points do.
  if (left.is(Kind::string) && right.is(Kind::string)) {
    meter.step(std::min(left.str().size(), right.str().size()) / 256);
    return left.str() < right.str();
  }
  if (left.kind() == right.kind() && (left.is(Kind::list) || left.is(Kind::tuple))) {
    const auto [left_begin, left_end] = items_of(left);
    const auto [right_begin, right_end] = items_of(right);
    for (const Value *a = left_begin, *b = right_begin;; ++a, ++b) {
      if (b == right_end) return false;
      if (a == left_end) return true;
      if (!equal(*a, *b, meter, depth + 1)) return less(*a, *b, meter, depth + 1);
    }
  }
  fail(std::string("'<' not supported between instances of '") + type_name(left) + "' and '" +
       type_name(right) + "'");
}

std::size_t length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return length(value.str());
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return value.list().items.size();
    case Kind::dict:
      return value.dict().entries().size();
    case Kind::range:
      return static_cast<std::size_t>(value.range().size());
    default:
      fail(std::string("object of type '") + type_name(value) + "' has no len()");
  }
}

void fail_undefined(const Value& value) {
  fail(value.text() != nullptr ? value.str() : "a value is undefined");
}

const Value& defined(const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  return value;
}

}  // namespace verbatim::local_engine::jinja
