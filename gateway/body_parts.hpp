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
  bool aside = false;  ///< of an event, and not its data: its name, its id, a comment
};

enum class BodyForm { json, lines, events, text, opaque };

/// Parts in order; what is between them is punctuation (line ends, `data:`).
struct BodyParts {
  BodyForm form = BodyForm::opaque;
  std::vector<BodyPart> parts;
};

/// The form is told by the bytes; only text also needs a content type that does not say otherwise. JSON is JSON whatever its
/// type says. Only an answer can be events: it is that by its type, or because there are lines of data in it. A body of a
/// form that is not known is one unreadable part; so is data of an event that comes in several lines, and a line of an
/// event stream that its format does not know (WHATWG HTML, section 9.2.6).
[[nodiscard]] BodyParts take_apart(std::string_view content_type, std::string_view body,
                                   bool answer);

}  // namespace verbatim::gateway
