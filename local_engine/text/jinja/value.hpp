#pragma once
// The values that a template works with: Python's, as far as templates see them.

#include "local_engine/text/jinja/fault.hpp"
#include "schema/canonical_json.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verbatim::local_engine::jinja {

/// Counts the work and the memory of one rendering, and ends it with a Fault when it is too much.
class Meter {
 public:
  static constexpr std::uint64_t kStepsMax = 5'000'000;
  static constexpr std::uint64_t kLiveBytesMax = 256ull << 20;
  static constexpr std::uint64_t kBytesMax = 4ull << 30;  ///< made in all, freed or not

  void step(std::uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > kStepsMax) fail("the template takes too long");
  }
  void charge(std::uint64_t bytes) {
    made_ += bytes;
    if (live_ + bytes > kLiveBytesMax || made_ > kBytesMax)
      fail("the template needs too much memory");
    live_ += bytes;
  }
  void release(std::uint64_t bytes) { live_ -= bytes; }

 private:
  std::uint64_t steps_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t made_ = 0;
};

/// An immutable text, shared by the values that hold it.
class Text {
 public:
  Text(std::string text, Meter& meter) : text_(std::move(text)), meter_(meter) {
    meter_.charge(text_.size());
  }
  ~Text() { meter_.release(text_.size()); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  [[nodiscard]] const std::string& str() const { return text_; }

 private:
  std::string text_;
  Meter& meter_;
};

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  big,  ///< an integer from 2^63 to 2^64 - 1: it comes from JSON and can only be printed and compared
  real,
  string,
  list,
  tuple,
  generator,  ///< what filters like map give: it is gone through once
  view,       ///< dict.items() and the like
  dict,
  range,
  name_space,
  callable,  ///< macros, functions, bound methods, loop, cycler, joiner
};

class Object;
class List;
class Dict;
class Range;
class Namespace;
class Callable;

/// Small, copied freely. Objects are owned by the Heap of the rendering, not by values: values may form cycles.
class Value {
 public:
  Value() = default;  ///< undefined, without a hint
  explicit Value(bool value) : kind_(Kind::boolean) { number_.integer = value ? 1 : 0; }
  explicit Value(std::int64_t value) : kind_(Kind::integer) { number_.integer = value; }
  explicit Value(double value) : kind_(Kind::real) { number_.real = value; }
  explicit Value(std::shared_ptr<const Text> text, bool safe = false)
      : kind_(Kind::string), safe_(safe), text_(std::move(text)) {}
  explicit Value(Object& object);
  static Value none() {
    Value value;
    value.kind_ = Kind::none;
    return value;
  }
  static Value big(std::uint64_t number) {
    Value value;
    value.kind_ = Kind::big;
    value.number_.integer = static_cast<std::int64_t>(number);
    return value;
  }
  /// `hint` is the message of the error that using it gives: "'x' is undefined".
  static Value undefined(std::shared_ptr<const Text> hint) {
    Value value;
    value.text_ = std::move(hint);
    return value;
  }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }
  [[nodiscard]] bool is_number() const {
    return kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::boolean ||
           kind_ == Kind::big;
  }
  /// A bool is an integer too.
  [[nodiscard]] bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  /// Has its items in a List: list, tuple, generator, view.
  [[nodiscard]] bool is_listed() const { return kind_ >= Kind::list && kind_ <= Kind::view; }

  [[nodiscard]] bool boolean() const { return number_.integer != 0; }
  [[nodiscard]] std::int64_t integer() const { return number_.integer; }
  [[nodiscard]] std::uint64_t big() const { return static_cast<std::uint64_t>(number_.integer); }
  [[nodiscard]] double real() const { return number_.real; }
  /// Any number as a double.
  [[nodiscard]] double as_real() const;
  [[nodiscard]] const std::string& str() const { return text_->str(); }
  [[nodiscard]] const std::shared_ptr<const Text>& text() const { return text_; }
  [[nodiscard]] bool is_safe() const { return safe_; }
  [[nodiscard]] Object& object() const { return *number_.object; }
  [[nodiscard]] List& list() const;
  [[nodiscard]] Dict& dict() const;
  [[nodiscard]] Range& range() const;
  [[nodiscard]] Namespace& name_space() const;
  [[nodiscard]] Callable& callable() const;

 private:
  Kind kind_ = Kind::undefined;
  bool safe_ = false;  // a string that has been escaped, or is not to be (Markup)
  union {
    std::int64_t integer;
    double real;
    Object* object;
  } number_{0};
  std::shared_ptr<const Text> text_;  // of a string; of an undefined value the hint, or null
};

/// Something with an identity.
class Object {
 public:
  explicit Object(Kind kind) : kind_(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class List final : public Object {
 public:
  List(Kind kind, std::vector<Value> list) : Object(kind), items(std::move(list)) {}
  std::vector<Value> items;
  std::size_t consumed = 0;  ///< of a generator: how many are gone
};

/// Keeps the order in which keys came.
class Dict final : public Object {
 public:
  Dict() : Object(Kind::dict) {}
  using Entry = std::pair<Value, Value>;
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  /// Keys are texts, numbers and None; a Fault for others.
  void set(const Value& key, const Value& value);
  bool erase(const Value& key);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t index_of(const Value& key) const;
  [[nodiscard]] std::size_t index_of(std::string_view key) const;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_text_;  // string keys; views into their Text
  bool only_texts_ = true;
};

class Range final : public Object {
 public:
  Range(std::int64_t first, std::int64_t end, std::int64_t by)
      : Object(Kind::range), start(first), stop(end), step(by) {}
  [[nodiscard]] std::int64_t size() const;
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
};

class Namespace final : public Object {
 public:
  explicit Namespace(Dict& dict) : Object(Kind::name_space), attributes(dict) {}
  Dict& attributes;
};

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Interpreter;

/// Something that can be called.
class Callable : public Object {
 public:
  Callable() : Object(Kind::callable) {}
  virtual Value call(Interpreter& interpreter, CallArguments arguments) = 0;
  /// Undefined if there is none of that name.
  [[nodiscard]] virtual Value attribute(Interpreter& interpreter, std::string_view name);
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// Owns every object of one rendering, and frees them together at its end. So cycles do not matter, and nothing is
/// freed recursively.
class Heap {
 public:
  explicit Heap(Meter& meter) : meter_(meter) {}
  [[nodiscard]] Meter& meter() { return meter_; }

  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    meter_.charge(sizeof(T) + 32);
    auto made = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T& object = *made;
    objects_.push_back(std::move(made));
    return object;
  }
  [[nodiscard]] Value text(std::string text, bool safe = false) {
    return Value(std::make_shared<const Text>(std::move(text), meter_), safe);
  }
  [[nodiscard]] Value undefined(std::string hint) {
    return Value::undefined(std::make_shared<const Text>(std::move(hint), meter_));
  }
  [[nodiscard]] Value list(std::vector<Value> items, Kind kind = Kind::list) {
    meter_.charge(items.size() * sizeof(Value));
    return Value(make<List>(kind, std::move(items)));
  }
  /// A value from JSON. Throws Fault on nesting beyond kDepthMax.
  [[nodiscard]] Value from_json(const OrderedJson& json, int depth = 0);
  void set(Dict& dict, const Value& key, const Value& value) {
    meter_.charge(sizeof(Dict::Entry) + 48);
    dict.set(key, value);
  }

 private:
  Meter& meter_;
  std::deque<std::unique_ptr<Object>> objects_;
};

/// Containers within containers: printing and comparing deeper ones is a Fault.
inline constexpr int kDepthMax = 200;

[[nodiscard]] const char* type_name(const Value& value);  ///< Python's: "int", "str", ...
[[nodiscard]] bool is_true(const Value& value);
/// Python's ==. Throws Fault on nesting beyond kDepthMax. Steps are counted: values can share parts, so that comparing
/// small ones may take long.
[[nodiscard]] bool equal(const Value& left, const Value& right, Meter& meter, int depth = 0);
/// Python's <, for numbers, texts, lists and tuples; a Fault for others.
[[nodiscard]] bool less(const Value& left, const Value& right, Meter& meter, int depth = 0);
/// len(), a Fault for what has none.
[[nodiscard]] std::size_t length(const Value& value);
/// Throws the Fault that using an undefined value gives.
[[noreturn]] void fail_undefined(const Value& value);
/// `value` itself; a Fault if it is undefined.
const Value& defined(const Value& value);

}  // namespace verbatim::local_engine::jinja
