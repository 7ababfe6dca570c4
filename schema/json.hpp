#pragma once
// The JSON types, and a promise that they are compiled once, in json.cpp: what each file that includes this would
// otherwise instantiate again took a tenth to a quarter of the time of its compilation (measured).

#include <nlohmann/json.hpp>

#include <string>

namespace verbatim {

using Json = nlohmann::json;
/// Keeps the order in which members were added: for output that people read.
using OrderedJson = nlohmann::ordered_json;

}  // namespace verbatim

/// Applies KIND (`extern template` here, `template` in json.cpp) to a JSON type and to what reads and converts it.
// NOLINTBEGIN(bugprone-macro-parentheses): type names take none.
#define VERBATIM_JSON_TEMPLATES(KIND, JSON)                        \
  KIND class JSON;                                                 \
  KIND class nlohmann::detail::serializer<JSON>;                   \
  KIND class nlohmann::detail::json_sax_dom_parser<JSON>;          \
  KIND class nlohmann::detail::json_sax_dom_callback_parser<JSON>; \
  VERBATIM_JSON_READER(KIND, JSON, const char*)                    \
  VERBATIM_JSON_READER(KIND, JSON, std::string::const_iterator)
#define VERBATIM_JSON_READER(KIND, JSON, ITERATOR)                                              \
  KIND class nlohmann::detail::lexer<JSON, nlohmann::detail::iterator_input_adapter<ITERATOR>>; \
  KIND class nlohmann::detail::parser<JSON, nlohmann::detail::iterator_input_adapter<ITERATOR>>;
// NOLINTEND(bugprone-macro-parentheses)

#define VERBATIM_EXTERN_TEMPLATE extern template
VERBATIM_JSON_TEMPLATES(VERBATIM_EXTERN_TEMPLATE, nlohmann::basic_json<>)
VERBATIM_JSON_TEMPLATES(VERBATIM_EXTERN_TEMPLATE, nlohmann::basic_json<nlohmann::ordered_map>)
#undef VERBATIM_EXTERN_TEMPLATE
