#include "cli/show_text.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace verbatim::cli {

namespace {

constexpr std::size_t kNameWidth = 30;

/// What moves the cursor, ends a line or turns the direction of the text: C0 but for line ends and tabs, DEL, C1, U+200E,
/// U+200F, U+2028 to U+202E, U+2066 to U+2069.
bool steers(std::string_view at) {
  const auto byte = [&](std::size_t i) {
    return i < at.size() ? static_cast<unsigned char>(at[i]) : 0u;
  };
  if (byte(0) == 0xc2) return byte(1) >= 0x80 && byte(1) < 0xa0;
  if (byte(0) == 0xe2 && byte(1) == 0x80) {
    return byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae);
  }
  if (byte(0) == 0xe2 && byte(1) == 0x81) return byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return (byte(0) < 0x20 && byte(0) != '\n' && byte(0) != '\t') || byte(0) == 0x7f;
}

/// Each such character is a question mark.
std::string harmless(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const bool bad = steers(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    shown += bad ? '?' : text[at];
    at += !bad || byte < 0x80 ? 1 : byte == 0xc2 ? 2 : 3;
  }
  return shown;
}

void print_member(std::ostream& out, const std::string& name, const OrderedJson& value) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      print_member(out, name.empty() ? key : name + "." + key, member);
    }
    return;
  }
  std::string text = value.is_string()
                         ? value.get<std::string>()
                         : value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string padded = name;
  padded.resize(std::max(kNameWidth, name.size() + 1), ' ');
  out << "  " << harmless(padded + text) << '\n';
}

void print_leaf(std::ostream& out, const OrderedJson& leaf, const OrderedJson& tree_size) {
  out << "leaf " << leaf.at("index") << " of " << tree_size << "\n";
  if (leaf.contains("pruned")) {
    print_member(out, "PRUNED", leaf.at("pruned"));
  } else {
    print_member(out, "", leaf.at("leaf"));
  }
  print_member(out, "leaf_hash", leaf.at("leaf_hash"));
  out << '\n';
}

void print_content(std::ostream& out, const std::string& field, const OrderedJson& content) {
  out << field;
  if (content.contains("erased")) {
    out << ": " << harmless(content.at("erased").get<std::string>()) << "\n\n";
    return;
  }
  const bool text = content.contains("text");
  out << (text ? "\n" : ", base64\n")
      << harmless(content.at(text ? "text" : "base64").get<std::string>()) << "\n\n";
}

}  // namespace

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', '?');
  std::replace(text.begin(), text.end(), '\t', ' ');
  return harmless(text);
}

void print_shown(std::ostream& out, const OrderedJson& shown) {
  for (const OrderedJson& leaf : shown.at("leaves")) print_leaf(out, leaf, shown.at("tree_size"));
  if (!shown.contains("contents")) return;
  for (const auto& [field, content] : shown.at("contents").items()) {
    print_content(out, field, content);
  }
}

}  // namespace verbatim::cli
