#pragma once
// Texts without differences that are none to a reader: so that answers which differ in nothing else count as the same.

#include "schema/canonical_json.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// What is done to a text, in this order.
enum class NormalStep {
  /// Each character that Unicode has in two widths becomes the usual one: U+FF01 to U+FF5E the ASCII character, U+3000 a
  /// blank; the wide and narrow signs U+FF5F to U+FF65 and U+FFE0 to U+FFEE what they are the wide or narrow form of.
  /// Letters of Katakana and Hangul stay, and so do characters that are others and only look alike ('。' and '.').
  width,
  /// Unicode Normalization Form C (UAX 15).
  nfc,
  /// Each run of characters with the property White_Space becomes one blank (U+0020); none is left at either end of a
  /// text. Zero-width characters (U+200B, U+FEFF) have no such property, and stay.
  whitespace,
};

/// "width", "nfc", "whitespace": names in the configuration and in records.
[[nodiscard]] std::string_view normal_step_name(NormalStep step);
[[nodiscard]] std::optional<NormalStep> normal_step_named(std::string_view name);

/// Steps in their order, none twice; empty: texts are compared as they are.
using NormalForm = std::vector<NormalStep>;

/// Sorted, and each once.
[[nodiscard]] NormalForm normal_form_of(NormalForm steps);
/// Their names.
[[nodiscard]] Json describe_normal_form(const NormalForm& form);

/// The text in this form; applied to its own result it changes nothing. A text that is no UTF-8 stays as it is. Linear
/// time, whatever the text.
[[nodiscard]] std::string normalized(std::string text, const NormalForm& form);

/// Every string value of a JSON value in this form. Names of members stay.
void normalize_texts(Json& value, const NormalForm& form);

}  // namespace verbatim::gateway
