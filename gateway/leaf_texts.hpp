#pragma once
// Which of a client's words stay in a leaf. A leaf is there for ever: what may be a text of somebody goes into contents,
// which can be erased.

#include <string>
#include <string_view>

namespace verbatim::gateway {

/// True for a sampling parameter that says nothing but a number, true, false, null or a word of the API: `value` as
/// RequestFacts has it.
[[nodiscard]] bool is_leaf_param(std::string_view name, std::string_view value);

/// `target` as redacted_target() gives it, with `*` for each value in its query that is neither a number, true or false nor
/// a short word of a parameter that is known to hold no more (api-version, alt, beta, model, ...).
[[nodiscard]] std::string leaf_target(std::string_view target);

/// True for a traceparent as W3C Trace Context writes it: nothing but hexadecimal digits and three hyphens.
[[nodiscard]] bool is_traceparent(std::string_view value);

}  // namespace verbatim::gateway
