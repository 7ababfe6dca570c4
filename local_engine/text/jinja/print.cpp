#include "local_engine/text/jinja/print.hpp"

#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::local_engine::jinja {

namespace {

void check(const std::string& out, int depth) {
  if (out.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
  if (depth > kDepthMax) fail("a value is nested too deeply");
}

std::string number_text(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return value.boolean() ? "True" : "False";
    case Kind::big:
      return std::to_string(value.big());
    case Kind::real:
      return float_repr(value.real());
    default:
      return std::to_string(value.integer());
  }
}

void append_repr(std::string& out, const Value& value, int depth);

void append_items(std::string& out, const std::vector<Value>& items, int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i], depth + 1);
  }
}

void append_dict(std::string& out, const Dict& dict, int depth) {
  out += '{';
  bool first = true;
  for (const auto& [key, item] : dict.entries()) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, key, depth + 1);
    out += ": ";
    append_repr(out, item, depth + 1);
  }
  out += '}';
}

void append_repr(std::string& out, const Value& value, int depth) {
  check(out, depth);
  switch (value.kind()) {
    case Kind::undefined:
      out += "Undefined";
      return;
    case Kind::none:
      out += "None";
      return;
    case Kind::boolean:
    case Kind::integer:
    case Kind::big:
    case Kind::real:
      out += number_text(value);
      return;
    case Kind::string:
      if (value.is_safe()) out += "Markup(";
      out += string_repr(value.str());
      if (value.is_safe()) out += ")";
      return;
    case Kind::list:
      out += '[';
      append_items(out, value.list().items, depth);
      out += ']';
      return;
    case Kind::tuple:
      out += '(';
      append_items(out, value.list().items, depth);
      out += value.list().items.size() == 1 ? ",)" : ")";
      return;
    case Kind::dict:
      return append_dict(out, value.dict(), depth);
    case Kind::range: {
      const Range& range = value.range();
      out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop) +
             (range.step != 1 ? ", " + std::to_string(range.step) : "") + ")";
      return;
    }
    case Kind::name_space:
      out += "<Namespace ";
      append_dict(out, value.name_space().attributes, depth);
      out += ">";
      return;
    case Kind::generator:
    case Kind::view:
    case Kind::callable:
      // Python prints an address here, which no two runs share.
      fail(std::string("a ") + type_name(value) + " cannot be printed");
  }
}

void append_json_text(std::string& out, std::string_view text, bool ascii) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto unit = [&](char32_t value) {
    out += "\\u";
    for (int i = 3; i >= 0; --i) out += kHex[(value >> (4 * i)) & 15];
  };
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const char32_t c = point.value;
    constexpr std::string_view kPlain = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    const std::size_t plain = c < 0x80 ? kPlain.find(static_cast<char>(c)) : std::string_view::npos;
    if (plain != std::string_view::npos) {
      out += '\\';
      out += kLetters[plain];
    } else if (c >= 0x20 && (c < 0x7f || !ascii)) {
      out += text.substr(at, point.size);
    } else if (c >= 0x10000) {
      unit(0xd800 + ((c - 0x10000) >> 10));
      unit(0xdc00 + ((c - 0x10000) & 0x3ff));
    } else if (c == 0x7f) {
      out += '\x7f';
    } else {
      unit(c);
    }
    at += point.size;
  }
  out += '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  std::string run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, int depth) {
    check(out_, depth);
    switch (value.kind()) {
      case Kind::none:
        out_ += "null";
        return;
      case Kind::boolean:
        out_ += value.boolean() ? "true" : "false";
        return;
      case Kind::integer:
      case Kind::big:
        out_ += number_text(value);
        return;
      case Kind::real:
        out_ += real(value.real());
        return;
      case Kind::string:
        return append_json_text(out_, value.str(), style_.ascii);
      case Kind::list:
      case Kind::tuple:
        return list(value.list().items, depth);
      case Kind::dict:
        return dict(value.dict(), depth);
      default:
        fail(std::string("Object of type ") + type_name(value) + " is not JSON serializable");
    }
  }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void newline(int depth) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) {
      out_ += *style_.indent;
      check(out_, 0);
    }
  }

  void list(const std::vector<Value>& items, int depth) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      newline(depth + 1);
      write(items[i], depth + 1);
    }
    if (!items.empty()) newline(depth);
    out_ += ']';
  }

  void dict(const Dict& dict, int depth) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      Meter meter;
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return less(a->first, b->first, meter);
      });
    }
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      newline(depth + 1);
      append_json_text(out_, key(entries[i]->first), style_.ascii);
      out_ += style_.key_separator;
      write(entries[i]->second, depth + 1);
    }
    if (!entries.empty()) newline(depth);
    out_ += '}';
  }

  static std::string key(const Value& value) {
    switch (value.kind()) {
      case Kind::string:
        return value.str();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return value.boolean() ? "true" : "false";
      case Kind::integer:
      case Kind::big:
        return number_text(value);
      case Kind::real:
        return real(value.real());
      default:
        fail(std::string("keys must be str, int, float, bool or None, not ") + type_name(value));
    }
  }

  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string to_text(const Value& value) {
  if (value.is(Kind::string)) return value.str();
  if (value.is(Kind::undefined)) return {};
  return to_repr(value);
}

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(out, value, 0);
  check(out, 0);
  return out;
}

std::string to_json(const Value& value, const JsonStyle& style) {
  return JsonWriter(style).run(value);
}

}  // namespace verbatim::local_engine::jinja
