#pragma once
// What is wrong with a template, and where. Thrown and caught within the template engine only: parse() and render()
// turn it into an Error.

#include "schema/error.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace verbatim::local_engine::jinja {

/// A byte offset into the template's source.
using Position = std::uint32_t;
inline constexpr Position kNowhere = 0xffffffffU;

struct Fault {
  Errc code{};
  std::string what;
  Position at = kNowhere;  ///< kNowhere: the node being evaluated fills it in
};

[[noreturn]] inline void fail(std::string what, Position at = kNowhere) {
  throw Fault{Errc::invalid_input, std::move(what), at};
}

[[noreturn]] inline void refuse(std::string what, Position at = kNowhere) {
  throw Fault{Errc::unsupported, std::move(what), at};
}

}  // namespace verbatim::local_engine::jinja
