#include "cli/show_text.hpp"

#include <algorithm>
#include <string>

namespace verbatim::cli {

namespace {

constexpr std::size_t kNameWidth = 30;

std::string harmless(std::string text) {
  bool c1 = false;  // after 0xC2, 0x80 to 0x9F are the controls U+0080 to U+009F
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c1 && byte >= 0x80 && byte < 0xa0) c = '\xbf';  // an inverted question mark
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
    c1 = byte == 0xc2;
  }
  return text;
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
  print_member(out, "", leaf.at("leaf"));
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

void print_shown(std::ostream& out, const OrderedJson& shown) {
  for (const OrderedJson& leaf : shown.at("leaves")) print_leaf(out, leaf, shown.at("tree_size"));
  if (!shown.contains("contents")) return;
  for (const auto& [field, content] : shown.at("contents").items()) {
    print_content(out, field, content);
  }
}

}  // namespace verbatim::cli
