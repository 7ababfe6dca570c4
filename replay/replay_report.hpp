#pragma once
// A run of replays as figures (JSON), as a table (CSV), and as one HTML file that loads nothing and holds no script.

#include "replay/environments.hpp"
#include "replay/selection.hpp"
#include "replay/verdict.hpp"

#include <map>
#include <string>
#include <vector>

namespace verbatim::replay {

/// Everything that a report says.
struct ReplayRun {
  std::string origin, vkey, made;  ///< made: RFC 3339
  std::string design;              ///< design_text()
  Selected selected;
  std::string method;
  std::size_t engines_checked = 0;  ///< that passed check_engine() before this run
  std::vector<Verdict> verdicts;    ///< in the order of the selection
  std::map<std::uint64_t, RecordedEnvironment> environments;
  std::map<std::string, std::string> here;
  bool with_texts = true;  ///< false: no recorded text in the page
  /// How the bundle was verified that the records come from, as a sentence; "" if they come from the log, where each verdict
  /// is a leaf.
  std::string bundle;
};

/// The order in which a reader wants to see texts: the worst verdicts, then the smallest margins.
[[nodiscard]] bool needs_a_look_before(const Verdict& a, const Verdict& b);

/// Keeps the traces of the `texts_max` verdicts that need a look before the others, and drops the others', so that memory is
/// bounded. May be called again and again.
void keep_traces(std::vector<Verdict>& verdicts, std::size_t texts_max);

/// Every figure of the report: verdicts by kind and reason, tokens, margins by class, time line, environments.
[[nodiscard]] OrderedJson replay_figures(const ReplayRun& run);

/// One line a record, RFC 4180, with the members of `replay --json`.
[[nodiscard]] std::string replay_csv(const ReplayRun& run);

[[nodiscard]] std::string replay_report(const ReplayRun& run);

}  // namespace verbatim::replay
