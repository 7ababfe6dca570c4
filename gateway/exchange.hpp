#pragma once
// One exchange: a request that was read, and everything that happens until its answer's last byte
// is out. The policy is in one function, Exchange::run(); what it calls computes, and decides
// nothing.

#include "gateway/services.hpp"
#include "gateway/tee.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// On the gateway's thread. Lives in the session's coroutine.
class Exchange {
 public:
  /// `keep_alive`: what the client asked for. `arrived_us`: steady time of the request's head.
  Exchange(Services& services, std::shared_ptr<ClientConnection> client, RequestHead head,
           std::string body, bool keep_alive, std::int64_t arrived_us);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Answers the request. True if the connection may serve another one; if false, the caller closes
  /// it (where a cut had to be a reset, it is closed already).
  [[nodiscard]] net::awaitable<bool> run();

  /// Refuses a request that was not read to its end, or that nobody serves. As run().
  [[nodiscard]] net::awaitable<bool> reject(int http_status, std::string kind, std::string message);

 private:
  using Appended = audit::Appended;

  [[nodiscard]] audit::LeafDraft request_leaf() const;
  [[nodiscard]] audit::LeafDraft response_leaf(const Outcome& outcome);
  void describe_end(const Outcome& outcome, Json& fields) const;
  [[nodiscard]] bool may_become_canonical(const Outcome& outcome) const;

  void begin_request_leaf();
  [[nodiscard]] net::awaitable<bool> request_recorded();
  [[nodiscard]] net::awaitable<void> consult_cache();
  [[nodiscard]] bool look_up();
  [[nodiscard]] net::awaitable<Outcome> serve_hit();
  void name_upstream_error(Outcome& outcome) const;
  std::string answer_error(Tee& tee, const Outcome& outcome) const;
  /// `whole`: the client gets a whole answer, whatever it says; else what it has is cut off.
  [[nodiscard]] net::awaitable<bool> conclude(Outcome outcome, bool whole);
  [[nodiscard]] net::awaitable<bool> refuse_unrecorded();
  [[nodiscard]] Tee::Options tee_options() const;
  [[nodiscard]] bool fail_open() const;

  Services& services_;
  std::shared_ptr<ClientConnection> client_;
  RequestHead head_;
  std::string body_;
  bool keep_alive_;
  std::int64_t arrived_us_;

  Uuid id_;
  std::string record_id_;  // what the client is told: id_, or the leaf that counts many rejections
  Api api_;
  bool anthropic_;
  RequestFacts facts_;
  std::string subject_;
  Upstream* upstream_ = nullptr;
  Cancellation cancellation_;

  std::optional<PendingAppend> request_append_;
  std::optional<std::uint64_t> request_index_;  // once durable
  bool log_failed_ = false;                     // the request leaf could not be written
  bool leafless_ = false;                       // a rejection that is only counted

  std::string_view cache_status_ = "bypass";
  std::optional<Digest> cache_key_;
  std::unique_ptr<Flights::Leader> leading_;
  std::shared_ptr<const CanonicalAnswer> hit_;

  std::string replaced_;  // of an answer that was cut before anything of it went out

  Tee tee_;
};

}  // namespace verbatim::gateway
