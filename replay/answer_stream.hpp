#pragma once
// Streams of other servers, read strictly: an answer is judged by its text as a whole, so whatever a client may have read
// beside that text must be found.

#include "gateway/dialect.hpp"
#include "schema/json.hpp"

#include <string>
#include <string_view>

namespace verbatim::replay {

/// What a stream says beside the deltas of its text, or in a place where clients do not agree on it: words behind an end, an
/// event of another kind, a delta that is no text, a block begun twice. "" if nothing; else what it is, in a word or two.
[[nodiscard]] std::string beside_in_stream(gateway::Api api, std::string_view stream);

/// Says nothing that a person would read as words: null, "", [], {}, a number, true or false.
[[nodiscard]] bool says_nothing(const Json& value);

/// A member of a server's chunk or answer, of one of its choices, that is known to say nothing of the answer.
[[nodiscard]] bool is_silent_member(std::string_view name);
[[nodiscard]] bool is_silent_choice_member(std::string_view name);

}  // namespace verbatim::replay
