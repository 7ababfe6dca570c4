#pragma once
// Where answers come from: a remote server or the local engine, behind one interface.

#include "gateway/dialect.hpp"
#include "gateway/http.hpp"
#include "gateway/net.hpp"
#include "schema/canonical_json.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace verbatim::gateway {

/// How an exchange ended: `status` of a response leaf.
enum class EndStatus {
  complete,
  client_disconnect,
  upstream_error,
  upstream_truncated,
  timeout,
  rejected,
  cache_hit,
  gateway_error,
};

[[nodiscard]] std::string_view status_name(EndStatus status);

/// What is given an answer, piece by piece. on_head() first, then any number of on_body().
class AnswerSink : public ResponseReader {
 public:
  /// Gives out what may go. `last`: the answer is whole, so its end is kept back until it is
  /// recorded. False when the client has gone: stop asking.
  [[nodiscard]] virtual net::awaitable<bool> flush(bool last) = 0;
  /// The stream's terminal event has been seen: little can follow.
  [[nodiscard]] virtual bool terminal_seen() const = 0;
  /// More has come than an answer may have; stop.
  [[nodiscard]] virtual bool overflowed() const = 0;
  [[nodiscard]] virtual bool head_given() const = 0;
};

/// Tells whoever works for a client that the client has gone.
class Cancellation {
 public:
  void cancel() {
    cancelled_ = true;
    if (const auto stop = std::exchange(stop_, nullptr)) stop();
  }
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  /// `stop` runs at once when the client goes; replaces the one before. Null takes it back.
  void on_cancel(std::function<void()> stop) { stop_ = std::move(stop); }

 private:
  bool cancelled_ = false;
  std::function<void()> stop_;
};

struct Outcome;
class UpstreamConnection;

/// Who takes over both connections once the upstream has agreed to an Upgrade.
class Tunnel {
 public:
  virtual ~Tunnel() = default;
  /// The 101 is in the sink. Passes bytes on until either side ends.
  [[nodiscard]] virtual net::awaitable<Outcome> run(
      std::shared_ptr<UpstreamConnection> upstream) = 0;
};

/// The rest of a request's body that is too long to wait for.
class BodySource {
 public:
  virtual ~BodySource() = default;
  /// The next piece; empty at the end, and when it cannot be read to its end.
  [[nodiscard]] virtual net::awaitable<std::string> next() = 0;
  /// True once next() has given all of it.
  [[nodiscard]] virtual bool done() const = 0;
  /// How the exchange ends if next() was empty and done() is false: the client left, was late, or broke HTTP.
  [[nodiscard]] virtual Outcome failure() const = 0;
};

/// A question. All borrowed, for as long as the exchange.
struct Ask {
  const RequestHead& head;
  const std::string& body;  ///< as it came
  std::string_view text;    ///< the same without its content coding, where that could be undone
  const RequestFacts& facts;
  Api api;
  std::string_view record_id;
  Cancellation& cancellation;
  bool keyed = false;          ///< the credential is a key of the gateway, and for nobody else
  BodySource* rest = nullptr;  ///< then `body` is empty, and this is all of it
  Tunnel* tunnel = nullptr;    ///< the client asks for a WebSocket
};

/// How asking ended. If no head was given to the sink, the gateway answers with `http_status`
/// itself.
struct Outcome {
  EndStatus status = EndStatus::complete;
  int http_status = 502;
  std::string error_kind;  ///< for every status but complete: "connect", "first_byte_timeout", ...
  std::string error_message;  ///< never a secret
  std::uint32_t retry_after_s =
      0;                       ///< for answers of the gateway that say when to come back; 0: none
  std::string address;         ///< of the server that was asked
  std::optional<Json> engine;  ///< `engine` of the response leaf: local engine only
  std::string tokens;          ///< content `response.tokens`: local engine only
  std::string layers;          ///< content `response.layers`: where the model is to keep it
  std::string fingerprint;     ///< content `response.fingerprint`: likewise
  Json usage;  ///< `usage`, where it is known whether or not the answer tells it; else null
};

/// Any end but a complete answer.
[[nodiscard]] inline Outcome ended(EndStatus status, int http_status, std::string kind,
                                   std::string message) {
  Outcome outcome;
  outcome.status = status;
  outcome.http_status = http_status;
  outcome.error_kind = std::move(kind);
  outcome.error_message = std::move(message);
  return outcome;
}
[[nodiscard]] inline Outcome client_left(std::string message = "the client closed") {
  return ended(EndStatus::client_disconnect, 499, "client_disconnect", std::move(message));
}

class Upstream {
 public:
  virtual ~Upstream() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// `model` of the request leaf: the level of what is known, and digests where measured.
  [[nodiscard]] virtual Json describe_model(std::string_view requested) const = 0;
  /// What of the model goes into a cache key.
  [[nodiscard]] virtual std::string identity(std::string_view requested) const = 0;
  [[nodiscard]] virtual bool local() const = 0;
  [[nodiscard]] virtual net::awaitable<Outcome> ask(const Ask& question, AnswerSink& sink) = 0;
  /// The rejection with which ask() would end, found without answering; none if it would go on. Of use where there is
  /// no server to say no.
  [[nodiscard]] virtual net::awaitable<std::optional<Outcome>> refusal(const Ask&) {
    co_return std::nullopt;
  }
  /// Closes what is kept open between questions.
  virtual void drain() {}
};

}  // namespace verbatim::gateway
