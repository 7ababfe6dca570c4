#pragma once
// What remote servers say of themselves: version, model, settings. Asked now and then; recorded when it changes.

#include "gateway/config.hpp"
#include "gateway/environment.hpp"
#include "gateway/recorder.hpp"
#include "gateway/upstream.hpp"

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// The facts of one answer. A fact's name is the path that was asked and the members that lead to it. Longer texts
/// become their digest ("sha256:..."), so that a change is seen. Left out is what differs from one answer to the next
/// without a change of the server (`created`, `permission`, `internal_states`, ...). A body that is no JSON is one fact,
/// its digest.
[[nodiscard]] Facts facts_in(std::string_view path, std::string_view body);

/// Asks upstreams, and has an `environment` leaf for what each said last. On the gateway's thread; outlived by
/// `io`, `recorder` and `clock`.
class UpstreamFacts {
 public:
  struct Asked {
    std::shared_ptr<Upstream> upstream;
    std::vector<std::string> paths;
    std::chrono::seconds every{0};
  };

  UpstreamFacts(net::io_context& io, Recorder& recorder, std::shared_ptr<Mailbox> mailbox,
                std::shared_ptr<spdlog::logger> out)
      : io_(io), recorder_(recorder), mailbox_(std::move(mailbox)), out_(std::move(out)) {}
  ~UpstreamFacts() { stop(); }
  UpstreamFacts(const UpstreamFacts&) = delete;
  UpstreamFacts& operator=(const UpstreamFacts&) = delete;

  /// From now on these are asked, the first time at once; what was known of an upstream of the same name stays.
  void replace(std::vector<Asked> asked);
  void stop();

  /// The index of the newest leaf about an upstream; none if it was not asked, or never answered.
  [[nodiscard]] std::optional<std::uint64_t> leaf_of(std::string_view upstream) const;
  /// How often what an upstream says has changed since the start, by name.
  [[nodiscard]] std::map<std::string, std::uint64_t> changes() const;

 private:
  struct Known {
    Facts facts;
    std::optional<std::uint64_t> index;
    std::uint64_t changes = 0;
  };
  struct Round;

  net::awaitable<void> keep_asking(std::shared_ptr<Round> round);
  net::awaitable<std::optional<Facts>> ask_all(Round& round);
  net::awaitable<void> note(std::string name, Facts facts, std::shared_ptr<Round> round);

  net::io_context& io_;
  Recorder& recorder_;
  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<spdlog::logger> out_;
  std::map<std::string, Known, std::less<>> known_;
  std::vector<std::shared_ptr<Round>> rounds_;
};

}  // namespace verbatim::gateway
