#pragma once
// Drawings for reports: inline SVG, coloured by the page's style sheet, readable on paper.

#include "replay/clusters.hpp"
#include "replay/html.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// A part of a whole. `style` is a class of report/style.css.
struct Part {
  std::string name, style;
  std::uint64_t count = 0;
};

/// One bar, as wide as the page, cut in proportion; parts of count 0 are left out.
[[nodiscard]] Html share_bar(const std::vector<Part>& parts, const std::string& title);

/// A small square in a part's colour, for tables.
[[nodiscard]] Html swatch(const std::string& style);

/// One column of stacked parts, in the order of `styles` of the chart.
struct Column {
  std::string label;  ///< "" for none
  std::vector<std::uint64_t> counts;
};

/// A moment to mark between columns: `at` counts columns from the left, with fractions.
struct Event {
  double at = 0;
  std::string label;
};

struct ColumnChart {
  std::string title;  ///< for who does not see it
  std::vector<std::string> styles;
  std::vector<Column> columns;
  std::vector<Event> events;
  std::optional<double> limit;  ///< a line at this place, counted in columns
  std::string limit_label;
  bool gaps = true;  ///< false: columns touch, as in a histogram
};
[[nodiscard]] Html column_chart(const ColumnChart& chart);

/// The forks of a clustering as a tree that grows to the right: what all have in common, then each branch with its
/// number of answers, or with its cluster's name if there are `names`. For a few dozen clusters; the caller leaves the
/// rest out.
/// `end`: what stands for a branch that has no text behind the fork.
/// `colours`: of each cluster, as in styles s0 to s5; else the most frequent is 0, and so on. A branch has that of its
/// first.
[[nodiscard]] Html fork_tree(const Clustering& clustering,
                             const std::vector<std::string>& names = {},
                             const std::string& end = "(ends here)",
                             const std::vector<std::size_t>& colours = {});

}  // namespace verbatim::replay
