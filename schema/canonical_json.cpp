#include "schema/canonical_json.hpp"

#include "schema/bytes.hpp"
#include "schema/json_problem.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace verbatim {

namespace {

/// What follows the backslash for a character that has a short escape; 0 for all others.
constexpr char short_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

void append_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  std::size_t plain = 0;  // where the run of characters that stand for themselves began
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    if (const char escape = short_escape(c); escape != 0) {
      out.push_back('\\');
      out.push_back(escape);
    } else {
      out += "\\u00";
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    }
  }
  out.append(text, plain);
  out.push_back('"');
}

/// Orders UTF-8 strings as their UTF-16 forms would be: the same as by code point, except that code
/// points from U+10000 on (surrogates D800..DFFF in UTF-16) come before U+E000..U+FFFF.
bool utf16_less(std::string_view a, std::string_view b) {
  const auto [at, bt] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at == a.end() || bt == b.end()) return at == a.end() && bt != b.end();
  const auto x = static_cast<unsigned char>(*at);
  const auto y = static_cast<unsigned char>(*bt);
  // Lead bytes EE and EF begin U+E000..U+FFFF; F0 and above begin what UTF-16 writes with surrogates.
  const auto rank = [](unsigned char lead) {
    return lead >= 0xF0 ? 0xED + 1 : lead >= 0xEE ? lead + 2 : int{lead};
  };
  const int rank_x = rank(x);
  const int rank_y = rank(y);
  return rank_x != rank_y ? rank_x < rank_y : x < y;
}

using json_problem::holds_nul;
using json_problem::not_json;

/// One JSON value whose numbers are still the tokens that were read.
struct Node {
  enum class Kind { literal, string, array, object } kind = Kind::literal;
  std::string text;         // literal: as printed; string: the value
  std::vector<Node> items;  // of an array or object, in the order read
  std::string name;         // of an object's member
};

/// Builds a Node from nlohmann's events, and refuses what RFC 8785 refuses.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(Numbers numbers, std::size_t values_max) : numbers_(numbers), values_left_(values_max) {}

  bool null() override { return put({Node::Kind::literal, "null", {}, {}}); }
  bool boolean(bool value) override {
    return put({Node::Kind::literal, value ? "true" : "false", {}, {}});
  }
  bool number_integer(number_integer_t value) override {
    return integer(std::to_string(value), static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return integer(std::to_string(value), static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& token) override {
    if (numbers_ == Numbers::literal) return put({Node::Kind::literal, token, {}, {}});
    if (!std::isfinite(value)) return fail(json_problem::beyond_doubles());
    return put({Node::Kind::literal, ecmascript_number(value), {}, {}});
  }
  bool string(string_t& value) override {
    return put({Node::Kind::string, std::move(value), {}, {}});
  }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool start_object(std::size_t) override { return open(Node::Kind::object); }
  bool end_object() override {
    std::set<std::string_view> names;
    for (const Node& member : open_.back().items) {
      if (!names.insert(member.name).second) return fail(json_problem::twice(member.name));
    }
    return close();
  }
  bool start_array(std::size_t) override { return open(Node::Kind::array); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    keys_.back() = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    return fail(json_problem::of(position, exception));
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] Node take() { return std::move(root_); }

 private:
  bool fail(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
    return false;
  }
  bool integer(std::string exact, double nearest) {
    return put({Node::Kind::literal,
                numbers_ == Numbers::literal ? std::move(exact) : ecmascript_number(nearest),
                {},
                {}});
  }
  bool open(Node::Kind kind) {
    if (open_.size() >= static_cast<std::size_t>(kJsonDepthMax)) return fail("nested too deep");
    Node node;
    node.kind = kind;
    open_.push_back(std::move(node));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Node done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return put(std::move(done));
  }
  bool put(Node node) {
    if (values_left_-- == 0) return fail("more values than are read here");
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      node.name = std::move(keys_.back());  // "" in an array
      open_.back().items.push_back(std::move(node));
    }
    return true;
  }

  Numbers numbers_;
  std::size_t values_left_;
  Node root_;
  std::vector<Node> open_;         // containers begun and not ended
  std::vector<std::string> keys_;  // the pending key of each of them
  std::string problem_;
};

void append_node(std::string& out, Node& node) {
  switch (node.kind) {
    case Node::Kind::literal:
      out += node.text;
      return;
    case Node::Kind::string:
      append_string(out, node.text);
      return;
    case Node::Kind::array: {
      out.push_back('[');
      bool first = true;
      for (Node& item : node.items) {
        if (!std::exchange(first, false)) out.push_back(',');
        append_node(out, item);
      }
      out.push_back(']');
      return;
    }
    case Node::Kind::object: {
      std::sort(node.items.begin(), node.items.end(),
                [](const Node& a, const Node& b) { return utf16_less(a.name, b.name); });
      out.push_back('{');
      bool first = true;
      for (Node& member : node.items) {
        if (!std::exchange(first, false)) out.push_back(',');
        append_string(out, member.name);
        out.push_back(':');
        append_node(out, member);
      }
      out.push_back('}');
      return;
    }
  }
}

void append_value(std::string& out, const Json& value);

void append_member(std::string& out, const std::string& name, const Json& value) {
  if (!is_utf8(name)) throw std::logic_error("canonical JSON: a key is not UTF-8");
  if (out.back() != '{') out.push_back(',');
  append_string(out, name);
  out.push_back(':');
  append_value(out, value);
}

void append_object(std::string& out, const Json& value) {
  const auto& members = value.get_ref<const Json::object_t&>();
  out.push_back('{');
  // The map's order, by bytes, is the one asked for unless a name has characters from U+E000 on.
  const bool ordered = std::all_of(members.begin(), members.end(), [](const auto& member) {
    return std::none_of(member.first.begin(), member.first.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= 0xEE; });
  });
  if (ordered) {
    for (const auto& [name, member] : members) append_member(out, name, member);
  } else {
    std::vector<const Json::object_t::value_type*> sorted;
    for (const auto& member : members) sorted.push_back(&member);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return utf16_less(a->first, b->first); });
    for (const auto* member : sorted) append_member(out, member->first, member->second);
  }
  out.push_back('}');
}

void append_value(std::string& out, const Json& value) {
  constexpr std::int64_t kExactMax = std::int64_t{1} << 53;
  switch (value.type()) {
    case Json::value_t::null:
      out += "null";
      return;
    case Json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: {
      const bool exact =
          value.is_number_unsigned()
              ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kExactMax)
              : value.get<std::int64_t>() >= -kExactMax && value.get<std::int64_t>() <= kExactMax;
      if (!exact) throw std::logic_error("canonical JSON: an integer beyond 2^53 must be a string");
      out += value.is_number_unsigned() ? std::to_string(value.get<std::uint64_t>())
                                        : std::to_string(value.get<std::int64_t>());
      return;
    }
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      if (!is_utf8(text)) throw std::logic_error("canonical JSON: a string is not UTF-8");
      append_string(out, text);
      return;
    }
    case Json::value_t::array: {
      out.push_back('[');
      bool first = true;
      for (const Json& item : value) {
        if (!std::exchange(first, false)) out.push_back(',');
        append_value(out, item);
      }
      out.push_back(']');
      return;
    }
    case Json::value_t::object:
      return append_object(out, value);
    default:
      throw std::logic_error("canonical JSON: floats and binary data are not allowed");
  }
}

/// Puts together what nlohmann's parser reads. What is open grows at its end only, and a map's members stay where they are:
/// pointers to both stay good.
class ValueBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [at, fresh] = members.try_emplace(std::move(name));
    if (!fresh) return fail(json_problem::twice(at->first));
    member_ = &at->second;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    return fail(json_problem::of(position, exception));
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  bool fail(std::string what) {
    problem_ = std::move(what);
    return false;
  }
  Json& add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    return open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  }
  bool put(Json value) {
    add(std::move(value));
    return true;
  }
  bool open(Json empty) {
    if (open_.size() >= static_cast<std::size_t>(kJsonDepthMax)) return fail("nested too deep");
    open_.push_back(&add(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  Json* member_ = nullptr;  // of the innermost object: the one whose name was read last
  std::string problem_;
};

}  // namespace

std::string ecmascript_number(double value) {
  if (value == 0) return "0";
  std::array<char, 32> scientific{};
  const auto end = std::to_chars(scientific.data(), scientific.data() + scientific.size(),
                                 std::abs(value), std::chars_format::scientific)
                       .ptr;
  const std::string_view text(scientific.data(), static_cast<std::size_t>(end - scientific.data()));
  const std::size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 1) digits += text.substr(2, e - 2);
  int exponent = 0;
  const std::size_t sign = text[e + 1] == '+' ? 1 : 0;  // which from_chars does not take
  std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), exponent);
  const int n = exponent + 1;  // the point's place
  const int k = static_cast<int>(digits.size());

  std::string out = value < 0 ? "-" : "";
  if (k <= n && n <= 21) {
    out += digits + std::string(static_cast<std::size_t>(n - k), '0');
  } else if (0 < n && n <= 21) {
    out += digits.substr(0, static_cast<std::size_t>(n)) + "." +
           digits.substr(static_cast<std::size_t>(n));
  } else if (-6 < n && n <= 0) {
    out += "0." + std::string(static_cast<std::size_t>(-n), '0') + digits;
  } else {
    out += digits.substr(0, 1);
    if (k > 1) out += "." + digits.substr(1);
    out += n - 1 < 0 ? "e-" : "e+";
    out += std::to_string(std::abs(n - 1));
  }
  return out;
}

Result<std::string> canonicalize(std::string_view json, Numbers numbers, std::size_t values_max) {
  if (json.find('\0') != std::string_view::npos) return holds_nul();
  Builder builder(numbers, values_max);
  if (!Json::sax_parse(json.begin(), json.end(), &builder)) {
    return not_json(builder.problem().empty() ? "not valid JSON" : builder.problem());
  }
  Node root = builder.take();
  std::string out;
  out.reserve(json.size());
  append_node(out, root);
  return out;
}

std::string canonical(const Json& value) {
  std::string out;
  out.reserve(1024);
  append_value(out, value);
  return out;
}

Result<Json> parse_json(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return holds_nul();
  ValueBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return not_json(builder.problem());
  // By name: Json converts from anything, so a plain return is ambiguous.
  return Result<Json>(boost::system::in_place_value, builder.take());
}

}  // namespace verbatim
