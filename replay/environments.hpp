#pragma once
// The machine and build that recorded, beside the one that replays.

#include "audit/records.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace verbatim::replay {

/// One environment leaf.
struct RecordedEnvironment {
  std::uint64_t index = 0;
  std::int64_t time_us = 0;
  std::map<std::string, std::string> facts;
  /// Names of facts that are otherwise here, or known on one side only.
  std::vector<std::string> differs;
};

/// Reads environment leaves as they are asked for, and keeps them. Any thread may call find().
class Environments {
 public:
  /// `here`: gateway::describe_environment().
  explicit Environments(const Json& here);

  /// Null if the leaf is not there or is no environment. What it points to stays as it is.
  [[nodiscard]] const RecordedEnvironment* find(audit::RecordSource& reader, std::uint64_t index);
  /// Those that were found so far, by index. Not while another thread calls find().
  [[nodiscard]] const std::map<std::uint64_t, RecordedEnvironment>& found() const { return found_; }
  [[nodiscard]] const std::map<std::string, std::string>& here() const { return here_; }

 private:
  std::map<std::string, std::string> here_;
  std::mutex mutex_;  // guards found_
  std::map<std::uint64_t, RecordedEnvironment> found_;
};

}  // namespace verbatim::replay
