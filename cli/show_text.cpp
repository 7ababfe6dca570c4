#include "cli/show_text.hpp"

#include "schema/bytes.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace verbatim::cli {

namespace {

constexpr std::size_t kNameWidth = 30;
constexpr std::string_view kFrame = "  | ";

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

/// The bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return is_utf8(text.substr(0, bytes)) ? bytes : 0;
}

/// Each such character is a question mark, and each byte that belongs to no character: a terminal that knows no UTF-8
/// obeys 0x80 to 0x9f too.
std::string harmless(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0 || steers(text)) {
      shown += '?';
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
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
  out << "  " << one_line(padded + text) << '\n';
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
  out << one_line(field);
  if (content.contains("erased")) {
    out << ": " << one_line(content.at("erased").get<std::string>()) << "\n\n";
    return;
  }
  const bool is_text = content.contains("text");
  out << (is_text ? "\n" : ", base64\n");
  const auto& text = content.at(is_text ? "text" : "base64").get_ref<const std::string&>();
  // With a frame at the margin: a body can say what it likes, and looks like no leaf.
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    out << kFrame << harmless(line) << '\n';
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  out << '\n';
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', '?');
  std::replace(line.begin(), line.end(), '\t', ' ');
  return harmless(line);
}

std::string many_lines(std::string_view text) { return harmless(text); }

std::string column(std::string_view text, std::size_t width) {
  std::string cell = one_line(text);
  cell.resize(std::max(width, cell.size()), ' ');
  return cell + "  ";
}

void print_shown(std::ostream& out, const OrderedJson& shown) {
  for (const OrderedJson& leaf : shown.at("leaves")) print_leaf(out, leaf, shown.at("tree_size"));
  if (!shown.contains("contents")) return;
  for (const auto& [field, content] : shown.at("contents").items()) {
    print_content(out, field, content);
  }
  for (const OrderedJson& answer : shown.value("answers", OrderedJson::array())) {
    const std::string beside = answer.value("beside", "");
    print_content(out, "the answer, as text" + (beside.empty() ? "" : ", beside its " + beside),
                  answer);
  }
}

}  // namespace verbatim::cli
