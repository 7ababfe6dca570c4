#pragma once
// One exchange: a request that was read, and everything that happens until its answer's last byte
// is out. The policy is in one function, Exchange::run(); what it calls computes, and decides
// nothing.

#include "gateway/body_sample.hpp"
#include "gateway/capture.hpp"
#include "gateway/services.hpp"
#include "gateway/tee.hpp"
#include "gateway/websocket_tunnel.hpp"

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

  /// Of an answer that was cut before anything of it went out.
  struct Replaced {
    std::string content_type, coding, body;
  };

  [[nodiscard]] audit::LeafDraft request_leaf();
  /// `body`: of the answer, as it is recorded before redaction.
  [[nodiscard]] audit::LeafDraft response_leaf(const Outcome& outcome, std::string body,
                                               bool may_be_canonical);
  [[nodiscard]] std::optional<ResponseFacts> record_answer(audit::LeafDraft& draft,
                                                           std::string body);
  void record_replaced(audit::LeafDraft& draft);
  void record_websocket(audit::LeafDraft& draft);
  void observe(const Outcome& outcome);
  void record_engine(audit::LeafDraft& draft, const Outcome& outcome);
  void describe_client(const Fields& fields, Json& leaf) const;
  void describe_params(const RequestFacts& facts, Json& leaf);
  void describe_end(const Outcome& outcome, const ResponseFacts& facts, Json& fields);
  [[nodiscard]] bool may_become_canonical(const Outcome& outcome) const;

  [[nodiscard]] net::awaitable<bool> answer();
  [[nodiscard]] net::awaitable<bool> conclude_failed(std::exception_ptr thrown);
  [[nodiscard]] net::awaitable<bool> refuse(Outcome outcome);

  [[nodiscard]] std::optional<Outcome> find_misdirected() const;
  [[nodiscard]] std::optional<Outcome> read_question();
  /// The request's body without its content coding; nothing if that could not be undone: what it says is unknown.
  [[nodiscard]] std::string_view text() const {
    if (decoded_) return *decoded_;
    return coded_ ? std::string_view() : std::string_view(body_);
  }
  [[nodiscard]] std::optional<Outcome> find_no_admission();
  [[nodiscard]] Ask question();
  void begin_request_leaf();
  [[nodiscard]] net::awaitable<bool> request_recorded();
  [[nodiscard]] net::awaitable<void> consult_cache();
  [[nodiscard]] std::unique_ptr<WebSocketTunnel> make_tunnel() const;
  [[nodiscard]] bool look_up();
  [[nodiscard]] net::awaitable<Outcome> serve_hit();
  void name_upstream_error(Outcome& outcome) const;
  void complain_of_upstream(const Outcome& outcome) const;
  void client_sends_no_more();
  Replaced answer_error(Tee& tee, const Outcome& outcome) const;
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
  bool coded_ = false;                  // body_ has a content coding
  std::optional<std::string> decoded_;  // body_ without it
  std::string_view unread_;             // why there is no decoded_ though it is coded
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

  std::shared_ptr<const CanonicalAnswer> observed_;  // a hit that goes upstream all the same
  std::optional<Observations::Result> observation_;  // how what came compares with it
  std::unique_ptr<WebSocketTunnel> websocket_;       // where one was asked for

  Capture capture_;
  Replaced replaced_;

  Tee tee_;
};

}  // namespace verbatim::gateway
