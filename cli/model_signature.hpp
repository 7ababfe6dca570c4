#pragma once
// verbatim model sign, verbatim model verify: the options, and what is printed.

#include "cli/command.hpp"

namespace verbatim::cli {

void add_model_sign(CLI::App& model, Context& context);
void add_model_verify(CLI::App& model, Context& context);

}  // namespace verbatim::cli
