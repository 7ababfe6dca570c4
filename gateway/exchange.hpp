#pragma once
// One exchange: a request that was read, and everything that happens until its answer's last byte
// is out. The policy is in one function, Exchange::run(); what it calls computes, and decides
// nothing.

#include "gateway/body_sample.hpp"
#include "gateway/services.hpp"
#include "gateway/tee.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// A body that passes through, and what is kept of it.
class SampledSource final : public BodySource {
 public:
  SampledSource(BodySource& source, std::size_t kept_bytes_max)
      : sample(kept_bytes_max), source_(source) {}
  [[nodiscard]] net::awaitable<std::string> next() override {
    std::string piece = co_await source_.next();
    sample.add(piece);
    co_return piece;
  }
  [[nodiscard]] bool done() const override { return source_.done(); }
  [[nodiscard]] Outcome failure() const override { return source_.failure(); }

  BodySample sample;

 private:
  BodySource& source_;
};

/// On the gateway's thread. Lives in the session's coroutine.
class Exchange {
 public:
  /// `keep_alive`: what the client asked for. `arrived_us`: steady time of the request's head.
  /// `rest`: where the body comes from if it is too long to be read first (`body` is empty then); must outlive this.
  Exchange(Services& services, std::shared_ptr<ClientConnection> client, RequestHead head,
           std::string body, bool keep_alive, std::int64_t arrived_us, BodySource* rest = nullptr);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Answers the request. True if the connection may serve another one; if false, the caller closes
  /// it (where a cut had to be a reset, it is closed already). An exception on the way, which only a bug or want of
  /// memory makes, ends as any failure does: the client is told, and the record is closed (`gateway_error`).
  [[nodiscard]] net::awaitable<bool> run();

  /// Refuses a request that was not read to its end, or that nobody serves. As run().
  [[nodiscard]] net::awaitable<bool> reject(int http_status, std::string kind, std::string message);

 private:
  using Appended = audit::Appended;

  [[nodiscard]] audit::LeafDraft request_leaf() const;
  [[nodiscard]] audit::LeafDraft response_leaf(const Outcome& outcome);
  void describe_end(const Outcome& outcome, Json& fields) const;
  [[nodiscard]] bool may_become_canonical(const Outcome& outcome) const;

  [[nodiscard]] net::awaitable<bool> answer();
  [[nodiscard]] net::awaitable<bool> conclude_failed(std::exception_ptr thrown);
  [[nodiscard]] net::awaitable<bool> refuse(Outcome outcome);

  [[nodiscard]] std::optional<Outcome> find_no_admission();
  [[nodiscard]] Ask question();
  void add_contents_of_long_bodies(audit::LeafDraft& draft);
  void begin_request_leaf();
  [[nodiscard]] net::awaitable<bool> request_recorded();
  [[nodiscard]] net::awaitable<void> consult_cache();
  [[nodiscard]] bool look_up();
  [[nodiscard]] net::awaitable<Outcome> serve_hit();
  void name_upstream_error(Outcome& outcome) const;
  void client_sends_no_more();
  std::string answer_error(Tee& tee, const Outcome& outcome) const;
  /// `whole`: the client gets a whole answer, whatever it says; else what it has is cut off.
  [[nodiscard]] net::awaitable<bool> conclude(Outcome outcome, bool whole);
  [[nodiscard]] net::awaitable<bool> refuse_unrecorded();
  [[nodiscard]] Tee::Options tee_options() const;
  [[nodiscard]] bool fail_open() const;
  [[nodiscard]] const std::string& tenant() const;

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
  std::shared_ptr<Upstream> upstream_;
  std::optional<KeyRing::Admission> admission_;  // where the gateway has keys of its own
  std::unique_ptr<SampledSource> rest_;          // of a body too long to be read first
  Cancellation cancellation_;

  std::optional<PendingAppend> request_append_;
  std::optional<std::uint64_t> request_index_;  // once durable
  bool log_failed_ = false;                     // the request leaf could not be written
  bool concluded_ = false;                      // the response leaf was handed to the log

  std::string_view cache_status_ = "bypass";
  std::optional<Digest> cache_key_;
  std::unique_ptr<Flights::Leader> leading_;
  std::shared_ptr<const CanonicalAnswer> hit_;

  std::string replaced_;  // of an answer that was cut before anything of it went out

  Tee tee_;
};

}  // namespace verbatim::gateway
