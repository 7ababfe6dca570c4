#pragma once
// The log for its monitors, as C2SP tlog-tiles has it: the newest checkpoint, tiles and entry bundles.

#include "gateway/http_text.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace verbatim::gateway {

/// Reads on a thread of its own, one request after the other, at most one tile or bundle each: a gateway's exchanges do not
/// wait for who reads its log.
class LogPages {
 public:
  /// `shared`: whether everybody may keep what is not secret; else only who was given it.
  LogPages(std::filesystem::path data_dir, bool shared);
  ~LogPages();
  LogPages(const LogPages&) = delete;
  LogPages& operator=(const LogPages&) = delete;

  /// `path`: what follows the log's prefix: "checkpoint", "tile/0/x001/234.p/7", "tile/entries/000". 404 for what is not
  /// there (yet), 410 for leaves that were pruned, 503 where the log cannot be read.
  [[nodiscard]] net::awaitable<Page> page(std::string path);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim::gateway
