#include "replay/html.hpp"

#include "gateway/header_rules.hpp"
#include "schema/error.hpp"
#include "schema/html_escape.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>

namespace verbatim::replay {

namespace {

/// Decodes the character at `at` of valid UTF-8 and moves behind it.
std::uint32_t next_character(std::string_view utf8, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(utf8[i]); };
  const unsigned char lead = byte(at);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(at + i) & 0x3F);
  at += length;
  return code;
}

/// True for what a reader would not see, or what would show him the rest in another order.
bool is_unseen(std::uint32_t code) {
  static constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 14> kRanges = {{
      {0x00, 0x08},
      {0x0B, 0x1F},
      {0x7F, 0x9F},
      {0xAD, 0xAD},
      {0x061C, 0x061C},
      {0x115F, 0x1160},
      {0x180B, 0x180E},
      {0x200B, 0x200F},
      {0x2028, 0x202E},
      {0x2060, 0x206F},
      {0x3164, 0x3164},
      {0xFE00, 0xFE0E},
      {0xFEFF, 0xFEFF},
      {0xE0000, 0xE0FFF},
  }};
  for (const auto& [first, last] : kRanges) {
    if (code >= first && code <= last) return true;
  }
  return false;
}

std::string code_point_name(std::uint32_t code) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string name;
  for (int shift = 20; shift >= 0; shift -= 4) {
    const std::uint32_t digit = code >> shift & 0xF;
    if (!name.empty() || digit != 0 || shift < 16) name.push_back(kDigits[digit]);
  }
  return "U+" + name;
}

}  // namespace

Html text(std::string_view utf8, const char* mark_tag) {
  const std::string valid = gateway::leaf_text(utf8, std::numeric_limits<std::size_t>::max());
  Html html;
  for (std::size_t at = 0; at < valid.size();) {
    const std::size_t begin = at;
    const std::uint32_t code = next_character(valid, at);
    if (is_unseen(code)) {
      html.html_.append("<").append(mark_tag).append(" class=\"mark\">");
      html.html_.append(code_point_name(code)).append("</").append(mark_tag).append(">");
    } else {
      html.html_ += escape_html(std::string_view(valid).substr(begin, at - begin));
    }
  }
  return html;
}

Html element(const char* tag, std::initializer_list<std::pair<const char*, std::string>> attributes,
             const Html& content) {
  Html html;
  html.html_.append("<").append(tag);
  for (const auto& [name, value] : attributes) {
    html.html_.append(" ").append(name).append("=\"");
    html.html_ += escape_html(value);
    html.html_.push_back('"');
  }
  html.html_.append(">").append(content.html_).append("</").append(tag).append(">");
  return html;
}

Html embed(std::string_view own) {
  Html html;
  html.html_ = own;
  return html;
}

std::string fill(std::string_view page, const std::map<std::string, Html>& pieces) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0;;) {
    const std::size_t open = page.find("{{", at);
    out.append(page.substr(at, open - at));
    if (open == std::string_view::npos) break;
    const std::size_t close = page.find("}}", open);
    VERBATIM_CHECK(close != std::string_view::npos);
    const auto piece = pieces.find(std::string(page.substr(open + 2, close - open - 2)));
    VERBATIM_CHECK(piece != pieces.end());
    out.append(piece->second.str());
    ++used;
    at = close + 2;
  }
  VERBATIM_CHECK(used == pieces.size());
  return out;
}

std::string fixed(double value, int digits) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, digits)
                       .ptr;
  return {buffer.data(), end};
}

std::string percent(double share) {
  if (share <= 0) return "0 %";
  if (share >= 1) return "100 %";
  const double shown = share * 100;
  if (shown < 0.1) return "< 0.1 %";
  if (shown > 99.9) return "> 99.9 %";
  return fixed(shown, 1) + " %";
}

std::string shortened(std::string_view utf8, std::size_t characters_max) {
  std::size_t at = 0, count = 0;
  while (at < utf8.size() && count < characters_max) {
    ++at;
    while (at < utf8.size() && (static_cast<unsigned char>(utf8[at]) & 0xC0) == 0x80) ++at;
    ++count;
  }
  std::string out(utf8.substr(0, at));
  if (at < utf8.size()) out += "\xE2\x80\xA6";
  return out;
}

}  // namespace verbatim::replay
