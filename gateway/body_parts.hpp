#pragma once
// Where the JSON and the plain text of a body are, whatever its form: one JSON value, a JSON value a line, server-sent
// events, or text.

#include <cstddef>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

struct BodyPart {
  enum class Kind {
    json,        ///< exactly one JSON value
    text,        ///< read as it is
    unreadable,  ///< what it says cannot be told: broken JSON, a form that is not known here
  };
  std::size_t begin = 0, end = 0;  ///< of the body
  Kind kind = Kind::text;
};

enum class BodyForm { json, lines, events, text, opaque };

/// Parts in order; what is between them is punctuation (line ends, `data:`).
struct BodyParts {
  BodyForm form = BodyForm::opaque;
  std::vector<BodyPart> parts;
};

/// The form is told by the bytes; only text and events also need a content type that does not say otherwise. A body of
/// a form that is not known is one unreadable part; so is data of an event that comes in several lines.
[[nodiscard]] BodyParts take_apart(std::string_view content_type, std::string_view body);

}  // namespace verbatim::gateway
