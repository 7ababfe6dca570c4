#pragma once
// How far a long command is, on a terminal only.

#include "schema/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbatim::cli {

/// Writes one line to stderr, over and over, at most ten times a second; nothing if stderr is no terminal.
class Progress {
 public:
  /// `verb`: what is done to each, in the past: "replayed".
  Progress(bool quiet, std::string verb, const Clock& clock);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "replayed 40 of 100, 2 min 10 s left". The time left goes by the mean so far.
  void show(std::size_t done, std::size_t of);
  /// Takes the line away.
  void clear();

 private:
  bool on_;
  std::string verb_;
  const Clock& clock_;
  std::int64_t start_us_, shown_us_ = 0;
  bool visible_ = false;
};

/// "45 s", "2 min 10 s", "3 h 5 min".
[[nodiscard]] std::string duration_text(std::int64_t seconds);

}  // namespace verbatim::cli
