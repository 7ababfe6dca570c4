#pragma once
// What `probe` and `probe --series` are told alike: the endpoint and the question.

#include "cli/command.hpp"
#include "replay/probe.hpp"

#include <string>

namespace verbatim::cli {

struct ProbeFlags {
  std::string url, request_file, api, api_key_env, ca_file, report, csv;
  std::size_t timeout_s = 120;
  replay::ProbeOptions options;

  std::string series, prompts_file, metrics;  ///< a folder; one prompt a line
  bool new_baseline = false;
  double alpha = 0.01;
};

/// The endpoint, the API and the key; reads --request. `invalid_input` says what is wrong.
[[nodiscard]] Result<replay::ProbeOptions> probe_options(ProbeFlags& flags);

/// Asks all questions once more, and compares the answers with the series' baseline.
[[nodiscard]] int run_probe_series(const Context& context, ProbeFlags& flags);

}  // namespace verbatim::cli
