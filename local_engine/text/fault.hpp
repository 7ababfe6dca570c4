#pragma once
// How the parts of local_text report what is wrong with a tokenizer file, from deep inside a parser.
//
// A Fault is thrown and caught within this folder only: Tokenizer::load and encode turn it into an Error,
// so that no exception crosses the component.

#include "schema/error.hpp"

#include <string>
#include <utility>

namespace verbatim::local_engine {

struct Fault {
  Errc code{};
  std::string what;
};

/// The file asks for something that this build does not do.
[[noreturn]] inline void refuse(std::string what) {
  throw Fault{Errc::unsupported, std::move(what)};
}

/// The file or the text is not well formed.
[[noreturn]] inline void malformed(std::string what) {
  throw Fault{Errc::invalid_input, std::move(what)};
}

}  // namespace verbatim::local_engine
