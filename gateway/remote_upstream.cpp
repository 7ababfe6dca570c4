#include "gateway/remote_upstream.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/tls.hpp"
#include "gateway/upstream_connection.hpp"
#include "schema/file.hpp"

#include <boost/asio/ssl/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

namespace verbatim::gateway {

namespace {

using ConnectionPtr = std::shared_ptr<UpstreamConnection>;

/// True if a server that closed an idle connection explains the error: it cannot have seen the
/// request.
bool is_stale(const error_code& error) {
  return error == net::error::eof || error == net::error::connection_reset ||
         error == net::error::broken_pipe || error == net::error::not_connected ||
         error == net::ssl::error::stream_truncated;
}

/// What a server is reached with.
struct Means {
  std::unique_ptr<net::ssl::context> tls;  // null for http
  std::optional<HttpProxy> proxy;
  std::string credential;  // "": the client's own
};

/// The provider's credential, from where the configuration says. Its text is in no message.
Result<std::string> load_credential(const UpstreamConfig& upstream) {
  std::string text;
  std::string where;
  if (!upstream.credential_env.empty()) {
    where = "environment variable " + upstream.credential_env;
    const char* value = std::getenv(upstream.credential_env.c_str());
    if (value == nullptr) {
      return Error{Errc::invalid_input, "there is no credential for upstream " + upstream.name,
                   where, "the variable is not set"};
    }
    text = value;
  } else if (!upstream.credential_file.empty()) {
    where = upstream.credential_file.string();
    auto read = read_file(upstream.credential_file, 65536);
    if (!read) return read.error();
    text = std::move(*read);
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  } else {
    return text;
  }
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7F'; });
  if (text.empty() || !printable) {
    return Error{Errc::invalid_input, "there is no credential for upstream " + upstream.name, where,
                 "it must be one word"};
  }
  return text;
}

Result<Means> find_means(const UpstreamConfig& upstream) {
  Means means;
  if (upstream.url.tls) {
    auto tls = make_client_tls(upstream);
    if (!tls) return tls.error();
    means.tls = std::move(*tls);
  }
  auto proxy = proxy_for(upstream.url, [](const char* name) { return std::getenv(name); });
  if (!proxy) return proxy.error();
  means.proxy = std::move(*proxy);
  auto credential = load_credential(upstream);
  if (!credential) return credential.error();
  means.credential = std::move(*credential);
  return Result<Means>(boost::system::in_place_value, std::move(means));
}

class RemoteUpstream final : public Upstream {
 public:
  RemoteUpstream(net::io_context& io, Deadlines& deadlines, const Clock& clock,
                 const UpstreamConfig& config, const Limits& limits, const Timeouts& timeouts,
                 Means means)
      : io_(io),
        deadlines_(deadlines),
        clock_(clock),
        config_(config),
        limits_(limits),
        timeouts_(timeouts),
        means_(std::move(means)),
        pool_(limits.idle_upstream_max, timeouts.upstream_keep_alive, clock) {}

  [[nodiscard]] std::string_view name() const override { return config_.name; }
  [[nodiscard]] bool local() const override { return false; }
  [[nodiscard]] Json describe_model(std::string_view requested) const override {
    Json model = {{"level", "claimed"}};
    if (!requested.empty()) model["requested"] = leaf_text(requested, 256);
    return model;
  }
  [[nodiscard]] std::string identity(std::string_view requested) const override {
    return "remote:" + config_.name + ":" + (config_.url.tls ? "https:" : "http:") +
           config_.url.address.str() + config_.url.prefix + ":" + std::string(requested);
  }
  void drain() override { pool_.clear(); }

  [[nodiscard]] net::awaitable<Outcome> ask(const Ask& question, AnswerSink& sink) override {
    const std::string head = request_head(question);
    // A reused connection may have died unseen; then, and only then, a fresh one is tried. A body that is read while it
    // is sent cannot be sent twice.
    ConnectionPtr reused;
    if (question.rest == nullptr && question.tunnel == nullptr) reused = pool_.take();
    if (reused) {
      bool stale = false;
      Outcome outcome = co_await ask_on(reused, head, question, sink, &stale);
      if (!stale) co_return outcome;
    }
    auto fresh = std::make_shared<UpstreamConnection>(io_, deadlines_);
    question.cancellation.on_cancel([fresh] { fresh->close(); });
    const auto failure = co_await fresh->connect(
        config_.url, means_.tls.get(), means_.proxy ? &*means_.proxy : nullptr, timeouts_.connect);
    question.cancellation.on_cancel(nullptr);
    if (question.cancellation.cancelled()) co_return client_left();
    if (!failure.kind.empty()) {
      const bool late = failure.kind == "connect_timeout";
      co_return ended(late ? EndStatus::timeout : EndStatus::upstream_error, late ? 504 : 502,
                      failure.kind,
                      "upstream " + config_.name + " cannot be reached: " + failure.message);
    }
    Outcome outcome = co_await ask_on(fresh, head, question, sink, nullptr);
    co_return outcome;
  }

 private:
  /// Interim answers and single bytes of a head do not put off the deadline of an answer.
  [[nodiscard]] std::chrono::milliseconds left_of(std::chrono::milliseconds whole,
                                                  std::int64_t since_us) const {
    const std::chrono::milliseconds spent((clock_.steady_us() - since_us) / 1000);
    return std::max(whole - spent, std::chrono::milliseconds(0));
  }

  /// The request's head as the upstream gets it: Host rewritten in its place, hop-by-hop fields
  /// gone, and the length of the body that was read.
  [[nodiscard]] std::string request_head(const Ask& question) const {
    Fields fields = question.head.fields;
    strip_hop_by_hop(fields);
    fields.remove("expect");  // answered here
    const bool replaced = question.keyed || !means_.credential.empty();
    if (replaced) remove_credentials(fields);
    std::string out;
    out.reserve(512);
    out.append(question.head.method).append(" ");
    out.append(
        config_.url.target(replaced ? without_credentials(question.head) : question.head.target));
    out.append(" HTTP/1.1\r\n");
    bool has_host = false, has_length = false;
    for (const Field& field : fields.all()) {
      const bool host = same_word(field.name, "host");
      out.append(field.name).append(": ").append(host ? config_.url.host_field() : field.value);
      out.append("\r\n");
      has_host = has_host || host;
      has_length = has_length || same_word(field.name, "content-length");
    }
    if (!has_host) out.append("Host: ").append(config_.url.host_field()).append("\r\n");
    if (!has_length && question.rest == nullptr &&
        (!question.body.empty() || question.head.fields.has("transfer-encoding"))) {
      out.append("Content-Length: ").append(std::to_string(question.body.size())).append("\r\n");
    }
    if (!has_length && question.rest != nullptr) out.append("Transfer-Encoding: chunked\r\n");
    if (question.tunnel != nullptr) out.append("Connection: Upgrade\r\nUpgrade: websocket\r\n");
    if (!means_.credential.empty()) append_credential(question.head, out);
    return out.append("\r\n");
  }

  /// The provider's credential, in the form in which the client showed its own: that is the one its API version knows.
  void append_credential(const RequestHead& asked, std::string& out) const {
    std::string_view name = config_.credential_header;
    for (const std::string_view form : {"x-api-key", "api-key", "x-goog-api-key"}) {
      if (name.empty() && asked.fields.has(form)) name = form;
    }
    // Google's in a query would be in everybody's logs on the way.
    const bool googles = dialect_of(asked) == Dialect::gemini && !asked.fields.has("authorization");
    if (name.empty() && googles) name = "x-goog-api-key";
    if (name.empty() || name == "authorization") {
      out.append("Authorization: Bearer ").append(means_.credential).append("\r\n");
    } else {
      out.append(name).append(": ").append(means_.credential).append("\r\n");
    }
  }

  /// One attempt on one connection. `*stale` is set if the server had closed it before it could
  /// have read the request.
  [[nodiscard]] net::awaitable<Outcome> ask_on(ConnectionPtr connection, const std::string& head,
                                               const Ask& question, AnswerSink& sink, bool* stale) {
    question.cancellation.on_cancel([connection] { connection->close(); });
    auto write_error =
        co_await connection->write({net::buffer(head), net::buffer(question.body)}, timeouts_.idle);
    Outcome outcome;
    if (question.rest != nullptr && !write_error) {
      write_error = co_await pass_body(*connection, question);
      const bool broken_off = !question.rest->done() && !write_error;
      if (broken_off) {
        connection->close();
        outcome = question.cancellation.cancelled() ? client_left() : question.rest->failure();
        question.cancellation.on_cancel(nullptr);
        outcome.address = connection->address();
        co_return outcome;
      }
    }
    if (write_error && stale != nullptr && is_stale(write_error) &&
        !question.cancellation.cancelled()) {
      *stale = true;
    } else {
      // A server may answer, and close, before it has read all; so the answer is read even after a
      // failed write.
      outcome = co_await read_answer(connection, question, sink, write_error, stale);
    }
    question.cancellation.on_cancel(nullptr);
    outcome.address = connection->address();
    co_return outcome;
  }

  /// Sends a long body while it comes. An error if the server takes no more of it, which it may have said in an answer.
  [[nodiscard]] net::awaitable<error_code> pass_body(UpstreamConnection& connection,
                                                     const Ask& question) {
    const bool chunked = !question.head.fields.has("content-length");
    for (;;) {
      std::string piece = co_await question.rest->next();
      if (piece.empty() && !question.rest->done()) co_return error_code();
      const bool last = piece.empty();
      if (chunked) piece = last ? "0\r\n\r\n" : chunk_prefix(piece.size()) + piece + "\r\n";
      if (!piece.empty()) {
        const auto error = co_await connection.write({net::buffer(piece), {}}, timeouts_.idle);
        if (error) co_return error;
      }
      if (last) co_return error_code();
      // An answer before the end of the question: the rest is not wanted.
      if (connection.has_news()) co_return net::error::broken_pipe;
    }
  }

  [[nodiscard]] net::awaitable<Outcome> read_answer(ConnectionPtr connection, const Ask& question,
                                                    AnswerSink& sink, error_code write_error,
                                                    bool* stale) {
    const bool head_only = question.head.method == "HEAD";
    const bool upgrade = question.tunnel != nullptr;
    auto parser =
        std::make_unique<ResponseParser>(head_only, limits_.header_bytes_max, sink, upgrade);
    bool any = false;  // one byte of an answer has come
    const std::int64_t asked_us = clock_.steady_us();
    for (;;) {
      const auto within = sink.terminal_seen()  ? timeouts_.trailing
                          : parser->head_done() ? timeouts_.idle
                                                : left_of(timeouts_.first_byte, asked_us);
      const error_code error = co_await connection->read_some(within);
      if (question.cancellation.cancelled()) co_return client_left();
      if (error) {
        if (!any && stale != nullptr && is_stale(error)) {
          *stale = true;
          co_return Outcome{};
        }
        Outcome outcome = co_await at_error(*connection, *parser, sink, error, write_error);
        co_return outcome;
      }
      any = true;
      while (!connection->readable().empty() && !parser->done() && !parser->failed()) {
        const std::size_t used = parser->put(connection->readable());
        connection->consume(used);
        if (parser->done() && parser->status() / 100 == 1 && parser->status() != 101) {
          parser =
              std::make_unique<ResponseParser>(head_only, limits_.header_bytes_max, sink, upgrade);
          continue;
        }
        if (used == 0) break;
      }
      if (parser->failed()) {
        connection->close();
        co_return ended(
            parser->head_done() ? EndStatus::upstream_truncated : EndStatus::upstream_error, 502,
            "malformed_response", "the upstream's answer is not valid HTTP");
      }
      if (sink.overflowed()) {
        connection->close();
        co_return ended(EndStatus::gateway_error, 502, "response_too_large",
                        "the answer is longer than response_bytes_max");
      }
      const bool upgraded = parser->done() && parser->status() == 101;
      const bool flushed = co_await sink.flush(parser->done() && !upgraded);
      if (!flushed) {
        connection->close();
        co_return client_left();
      }
      if (upgraded) co_return co_await question.tunnel->run(std::move(connection));
      if (parser->done()) {
        if (parser->keep_alive() && !write_error && connection->readable().empty()) {
          pool_.give_back(std::move(connection));
        }
        co_return Outcome{};
      }
    }
  }

  /// The connection ended, or a deadline passed, in the middle of an answer.
  [[nodiscard]] net::awaitable<Outcome> at_error(UpstreamConnection& connection,
                                                 ResponseParser& parser, AnswerSink& sink,
                                                 error_code error, error_code write_error) {
    connection.close();
    const bool at_end = error == net::error::eof && parser.put_eof();
    // After its terminal event a stream is whole, whether or not its server ends it properly.
    if (at_end || sink.terminal_seen()) {
      const bool flushed = co_await sink.flush(true);
      co_return flushed ? Outcome{} : client_left();
    }
    if (connection.timed_out()) {
      co_return ended(EndStatus::timeout, 504,
                      parser.head_done() ? "idle_timeout" : "first_byte_timeout",
                      "the upstream sent nothing in time");
    }
    if (parser.head_done()) {
      co_return ended(EndStatus::upstream_truncated, 502, "truncated",
                      "the upstream closed in the middle of its answer");
    }
    co_return ended(EndStatus::upstream_error, 502, write_error ? "write" : "closed",
                    "the upstream closed without an answer: " + error.message());
  }

  net::io_context& io_;
  Deadlines& deadlines_;
  const Clock& clock_;
  UpstreamConfig config_;
  Limits limits_;
  Timeouts timeouts_;
  Means means_;
  ConnectionPool pool_;
};

}  // namespace

std::string_view status_name(EndStatus status) {
  switch (status) {
    case EndStatus::complete:
      return "complete";
    case EndStatus::client_disconnect:
      return "client_disconnect";
    case EndStatus::upstream_error:
      return "upstream_error";
    case EndStatus::upstream_truncated:
      return "upstream_truncated";
    case EndStatus::timeout:
      return "timeout";
    case EndStatus::rejected:
      return "rejected";
    case EndStatus::cache_hit:
      return "cache_hit";
    case EndStatus::gateway_error:
      return "gateway_error";
  }
  return "";
}

Result<std::shared_ptr<Upstream>> make_remote_upstream(net::io_context& io, Deadlines& deadlines,
                                                       const Clock& clock,
                                                       const UpstreamConfig& upstream,
                                                       const Limits& limits,
                                                       const Timeouts& timeouts) {
  auto means = find_means(upstream);
  if (!means) return means.error();
  return std::shared_ptr<Upstream>(std::make_shared<RemoteUpstream>(
      io, deadlines, clock, upstream, limits, timeouts, std::move(*means)));
}

Result<void> check_remote_upstream(const UpstreamConfig& upstream) {
  const auto means = find_means(upstream);
  if (!means) return means.error();
  return {};
}

}  // namespace verbatim::gateway
