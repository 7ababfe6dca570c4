#include "replay/charts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace verbatim::replay {

namespace {

constexpr double kWidth = 880;

std::string number(double value) { return fixed(value, 1); }

/// A drawing has no lines to wrap into: what is longer is cut, and whole in a title.
constexpr std::size_t kLabelCharactersMax = 60;

Html label(double x, double y, const std::string& shown, const char* style, const char* anchor) {
  const std::string cut = shortened(shown, kLabelCharactersMax);
  Html content = text(cut, "tspan");
  if (cut != shown) content += element("title", text(shown, "tspan"));
  return element("text",
                 {{"x", number(x)}, {"y", number(y)}, {"class", style}, {"text-anchor", anchor}},
                 content);
}

Html rectangle(double x, double y, double width, double height, const std::string& style) {
  return element("rect", {{"x", number(x)},
                          {"y", number(y)},
                          {"width", number(std::max(width, 0.6))},
                          {"height", number(height)},
                          {"class", style}});
}

Html line(double x1, double y1, double x2, double y2, const char* style) {
  return element("path",
                 {{"d", "M" + number(x1) + " " + number(y1) + "L" + number(x2) + " " + number(y2)},
                  {"class", style}});
}

Html drawing(double height, const std::string& title, const std::string& style,
             const Html& content) {
  return element("svg",
                 {{"viewBox", "0 0 " + number(kWidth) + " " + number(height)},
                  {"class", style},
                  {"role", "img"},
                  {"aria-label", title},
                  {"xmlns", "http://www.w3.org/2000/svg"}},
                 content);
}

/// One with labels: where the page is narrow it scrolls, rather than letting them shrink until nobody can read them.
Html labelled(double height, const std::string& title, const Html& content) {
  return element("div", {{"class", "scroll"}}, drawing(height, title, "labelled", content));
}

/// The least of 1, 2, 5, 10, 20, ... that is at least `value`.
std::uint64_t round_up(std::uint64_t value) {
  for (std::uint64_t decade = 1;; decade *= 10) {
    for (const std::uint64_t step : {1, 2, 5}) {
      if (decade * step >= value) return decade * step;
    }
  }
}

class Columns {
 public:
  explicit Columns(const ColumnChart& chart) : chart_(chart) {
    std::uint64_t highest = 1;
    for (const Column& column : chart.columns) {
      highest = std::max(
          highest, std::accumulate(column.counts.begin(), column.counts.end(), std::uint64_t{0}));
    }
    top_ = round_up(highest);
    step_ = (kRight - kLeft) / static_cast<double>(std::max<std::size_t>(1, chart.columns.size()));
  }

  Html draw() const {
    Html content = grid();
    for (std::size_t i = 0; i < chart_.columns.size(); ++i) content += column(i);
    for (const Event& event : chart_.events) {
      const double x = kLeft + event.at * step_;
      content += line(x, kHead - 6, x, kBase, "event");
      const bool left = x > kWidth * 0.75;
      content +=
          label(left ? x - 5 : x + 5, kHead - 8, event.label, "soft", left ? "end" : "start");
    }
    if (chart_.limit) {
      const double x = kLeft + *chart_.limit * step_;
      content += line(x, kHead - 6, x, kBase, "limit");
      const bool left_half = x < (kLeft + kRight) / 2;
      content += label(left_half ? x + 5 : x - 5, kHead - 8, chart_.limit_label, "soft",
                       left_half ? "start" : "end");
    }
    return labelled(kBase + 28, chart_.title, content);
  }

 private:
  static constexpr double kLeft = 44, kRight = kWidth - 4, kHead = 26, kBase = 196;

  Html grid() const {
    Html content;
    for (const double part : {0.0, 0.5, 1.0}) {
      const double y = kBase - part * (kBase - kHead);
      content += line(kLeft, y, kRight, y, "axis");
      const double value = part * static_cast<double>(top_);
      if (value == static_cast<double>(static_cast<std::uint64_t>(value))) {
        content += label(kLeft - 8, y + 4, fixed(value, 0), "soft", "end");
      }
    }
    return content;
  }

  Html column(std::size_t index) const {
    Html content;
    constexpr double kWidestColumn = 64;
    const double gap = chart_.gaps ? std::max(step_ * 0.12, step_ - kWidestColumn) : 1;
    const double x = kLeft + static_cast<double>(index) * step_;
    double y = kBase;
    for (std::size_t part = 0; part < chart_.columns[index].counts.size(); ++part) {
      const std::uint64_t count = chart_.columns[index].counts[part];
      if (count == 0) continue;
      const double height =
          static_cast<double>(count) / static_cast<double>(top_) * (kBase - kHead);
      y -= height;
      content += rectangle(x + gap / 2, y, step_ - gap, height, chart_.styles[part]);
    }
    if (const std::string& name = chart_.columns[index].label; !name.empty()) {
      // Under the middle of its column; of a histogram, under the edge where the column begins.
      content += label(chart_.gaps ? x + step_ / 2 : x, kBase + 18, name, "soft", "middle");
    }
    return content;
  }

  const ColumnChart& chart_;
  std::uint64_t top_ = 1;
  double step_ = 1;
};

/// Lays out the tree of forks: clusters are its leaves, one below the other.
class Tree {
 public:
  Tree(const Clustering& clustering, const std::vector<std::string>& names, const std::string& end,
       const std::vector<std::size_t>& colours)
      : clustering_(clustering), names_(names), end_(end), colours_(colours) {
    for (const Fork& fork : clustering.forks) {
      std::vector<std::size_t> clusters;
      for (const ForkBranch& branch : fork.branches) {
        clusters.insert(clusters.end(), branch.clusters.begin(), branch.clusters.end());
      }
      std::sort(clusters.begin(), clusters.end());
      by_clusters_[std::move(clusters)] = &fork;
    }
    const auto depth = static_cast<double>(depth_of(clustering.forks.front()));
    step_ = std::min(210.0, (kWidth - kLeft - kText) / depth);
  }

  Html draw() {
    const Fork& first = clustering_.forks.front();
    Html content;
    const double y = place(first, kLeft, content);
    content = stroke(6, y, kLeft, y, first.count, "branch") + content;
    content += place_label(first, kLeft, y, false);
    return labelled(row_ * kRow + 14, "Where the answers part, as a tree", content);
  }

 private:
  static constexpr double kLeft = 76, kRow = 38, kText = 330;

  /// The fork that a branch leads to; null where it leads to one cluster.
  const Fork* fork_of(const ForkBranch& branch) const {
    const auto found = by_clusters_.find(branch.clusters);
    return found == by_clusters_.end() ? nullptr : found->second;
  }

  std::size_t depth_of(const Fork& fork) const {
    std::size_t deepest = 0;
    for (const ForkBranch& branch : fork.branches) {
      if (const Fork* next = fork_of(branch)) deepest = std::max(deepest, depth_of(*next));
    }
    return deepest + 1;
  }

  Html stroke(double x1, double y1, double x2, double y2, std::size_t count,
              const std::string& style) const {
    const double all = static_cast<double>(clustering_.forks.front().count);
    const std::string middle = number((x1 + x2) / 2);
    return element(
        "path", {{"d", "M" + number(x1) + " " + number(y1) + "C" + middle + " " + number(y1) + " " +
                           middle + " " + number(y2) + " " + number(x2) + " " + number(y2)},
                 {"class", style},
                 {"stroke-width", number(1.5 + 7.5 * static_cast<double>(count) / all)}});
  }

  /// Where the line that leads to the fork is not: below it, where that comes from above.
  static Html place_label(const Fork& fork, double x, double y, bool below) {
    return label(x - 8, below ? y + 18 : y - 9, "char " + std::to_string(fork.character),
                 "soft halo", "end");
  }

  /// Draws a fork at `x`, without its label, and what follows it; returns how far down it stands.
  double place(const Fork& fork, double x, Html& content) {
    double y = 0;
    std::vector<double> ends;
    for (const ForkBranch& branch : fork.branches) {
      const Fork* const next = fork_of(branch);
      ends.push_back(next != nullptr ? place(*next, x + step_, content)
                                     : leaf(branch, x + step_, content));
      y += ends.back() / static_cast<double>(fork.branches.size());
    }
    Html strokes;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const ForkBranch& branch = fork.branches[i];
      const std::size_t first = branch.clusters.front();
      const std::size_t colour =
          std::min<std::size_t>(colours_.empty() ? first : colours_[first], 5);
      strokes +=
          stroke(x, y, x + step_, ends[i], branch.count, "branch t" + std::to_string(colour));
      const Fork* const next = fork_of(branch);
      if (next != nullptr) content += place_label(*next, x + step_, ends[i], ends[i] > y);
    }
    content = strokes + content;
    content +=
        element("circle", {{"cx", number(x)}, {"cy", number(y)}, {"r", "5"}, {"class", "node"}});
    return y;
  }

  double leaf(const ForkBranch& branch, double x, Html& content) {
    const double y = 24 + row_ * kRow;
    row_ += 1;
    const std::string name = names_.empty() ? std::to_string(branch.count) + " \xC3\x97"
                                            : names_[branch.clusters.front()];
    content += label(x + 10, y + 4, name, "soft halo", "start");
    content += label(x + (names_.empty() ? 48 : 76), y + 4,
                     branch.ends ? end_ : shortened(branch.text, 34), "mono halo", "start");
    return y;
  }

  const Clustering& clustering_;
  const std::vector<std::string>& names_;
  const std::string& end_;
  const std::vector<std::size_t>& colours_;
  std::map<std::vector<std::size_t>, const Fork*> by_clusters_;
  double step_ = 1, row_ = 0;
};

}  // namespace

Html share_bar(const std::vector<Part>& parts, const std::string& title) {
  std::uint64_t total = 0;
  for (const Part& part : parts) total += part.count;
  Html content;
  double x = 0;
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    const double width = kWidth * static_cast<double>(part.count) / static_cast<double>(total);
    Html piece = element("title", text(part.name + ": " + std::to_string(part.count)));
    content += element("g", piece + rectangle(x, 0, width - 2, 30, part.style));
    x += width;
  }
  return element("figure", drawing(30, title, "", content));
}

Html swatch(const std::string& style) { return element("span", {{"class", "swatch " + style}}); }

Html column_chart(const ColumnChart& chart) { return Columns(chart).draw(); }

Html fork_tree(const Clustering& clustering, const std::vector<std::string>& names,
               const std::string& end, const std::vector<std::size_t>& colours) {
  return clustering.forks.empty() ? Html() : Tree(clustering, names, end, colours).draw();
}

}  // namespace verbatim::replay
