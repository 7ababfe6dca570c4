#include "gateway/normal_form.hpp"

#include "local_engine/text/normalizer.hpp"
#include "local_engine/text/utf8.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace verbatim::gateway {

namespace {

using local_engine::append_utf8;
using local_engine::code_point_at;
using local_engine::CodePoint;

constexpr std::array<std::pair<NormalStep, std::string_view>, 3> kNames = {
    {{NormalStep::width, "width"},
     {NormalStep::nfc, "nfc"},
     {NormalStep::whitespace, "whitespace"}}};

/// Wide and narrow forms of signs, and what they are forms of: the decompositions <wide> and <narrow> of Unicode 15.
constexpr std::array<std::pair<char32_t, char32_t>, 22> kForms = {
    {{0x3000, 0x0020}, {0xFF5F, 0x2985}, {0xFF60, 0x2986}, {0xFF61, 0x3002}, {0xFF62, 0x300C},
     {0xFF63, 0x300D}, {0xFF64, 0x3001}, {0xFF65, 0x30FB}, {0xFFE0, 0x00A2}, {0xFFE1, 0x00A3},
     {0xFFE2, 0x00AC}, {0xFFE3, 0x00AF}, {0xFFE4, 0x00A6}, {0xFFE5, 0x00A5}, {0xFFE6, 0x20A9},
     {0xFFE8, 0x2502}, {0xFFE9, 0x2190}, {0xFFEA, 0x2191}, {0xFFEB, 0x2192}, {0xFFEC, 0x2193},
     {0xFFED, 0x25A0}, {0xFFEE, 0x25CB}}};

char32_t usual_width(char32_t value) {
  if (value < 0x3000) return value;
  if (value >= 0xFF01 && value <= 0xFF5E) return value - 0xFF01 + 0x21;
  const auto form = std::find_if(kForms.begin(), kForms.end(),
                                 [&](const auto& each) { return each.first == value; });
  return form == kForms.end() ? value : form->second;
}

std::string in_usual_width(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    append_utf8(out, usual_width(point.value));
    at += point.size;
  }
  return out;
}

std::string with_single_blanks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool blank = false;  // one is due, if anything follows
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (local_engine::is_white_space(point.value)) {
      blank = !out.empty();
    } else {
      if (std::exchange(blank, false)) out.push_back(' ');
      out.append(text.substr(at, point.size));
    }
    at += point.size;
  }
  return out;
}

}  // namespace

std::string_view normal_step_name(NormalStep step) {
  for (const auto& [each, name] : kNames) {
    if (each == step) return name;
  }
  return "";
}

std::optional<NormalStep> normal_step_named(std::string_view name) {
  for (const auto& [step, each] : kNames) {
    if (each == name) return step;
  }
  return std::nullopt;
}

NormalForm normal_form_of(NormalForm steps) {
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

Json describe_normal_form(const NormalForm& form) {
  Json out = Json::array();
  for (const NormalStep step : form) out.push_back(normal_step_name(step));
  return out;
}

std::string normalized(std::string text, const NormalForm& form) {
  if (form.empty() || !is_utf8(text)) return text;
  for (const NormalStep step : form) {
    switch (step) {
      case NormalStep::width:
        text = in_usual_width(text);
        break;
      case NormalStep::nfc:
        text = local_engine::normalize_unicode(std::move(text), local_engine::UnicodeForm::nfc);
        break;
      case NormalStep::whitespace:
        text = with_single_blanks(text);
        break;
    }
  }
  return text;
}

void normalize_texts(Json& value, const NormalForm& form) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    text = normalized(std::move(text), form);
  } else if (value.is_structured()) {
    for (auto& each : value) normalize_texts(each, form);
  }
}

}  // namespace verbatim::gateway
