#pragma once
// One connection to a remote server, plain or TLS, and the pool that keeps idle ones.

#include "gateway/byte_stream.hpp"
#include "gateway/config.hpp"
#include "gateway/deadline.hpp"
#include "gateway/http_proxy.hpp"
#include "gateway/net.hpp"

#include <boost/asio/ssl/context.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// On the gateway's thread. An operation that outlives its deadline, or that close() interrupts,
/// ends with operation_aborted.
class UpstreamConnection {
 public:
  UpstreamConnection(net::io_context& io, Deadlines& deadlines);

  struct Failure {
    std::string kind;  ///< "resolve", "connect", "proxy", "tls", "connect_timeout"; "" is success
    std::string message;
  };
  /// Resolves, connects (through `proxy`, if there is one) and, with `tls`, shakes hands and checks the server's name.
  [[nodiscard]] net::awaitable<Failure> connect(const BaseUrl& url, net::ssl::context* tls,
                                                const HttpProxy* proxy,
                                                std::chrono::milliseconds within);

  [[nodiscard]] net::awaitable<error_code> write(std::array<net::const_buffer, 2> pieces,
                                                 std::chrono::milliseconds within);
  /// Reads what there is into readable(); at least one byte, or an error.
  [[nodiscard]] net::awaitable<error_code> read_some(std::chrono::milliseconds within);

  [[nodiscard]] std::string_view readable() const {
    return std::string_view(buffer_).substr(begin_, end_ - begin_);
  }
  void consume(std::size_t bytes);

  /// False if the server has closed it, or has sent something that nobody asked for.
  [[nodiscard]] bool still_good();
  /// The server has sent something, or closed. Always false with TLS, in which not all that comes is an answer.
  [[nodiscard]] bool has_news();
  void close();
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::int64_t idle_since_us() const { return idle_since_us_; }
  void set_idle_since_us(std::int64_t now_us) { idle_since_us_ = now_us; }

 private:
  [[nodiscard]] net::awaitable<Failure> reach(const HostPort& address);
  [[nodiscard]] net::awaitable<Failure> ask_proxy(const HttpProxy& proxy, const HostPort& target);
  [[nodiscard]] net::awaitable<Failure> shake_hands(const std::string& host,
                                                    net::ssl::context& context);
  [[nodiscard]] Failure failed(std::string kind, const error_code& error) const;

  tcp::socket socket_;
  std::optional<TlsStream> tls_;
  tcp::resolver resolver_;
  Deadlines::Entry deadline_;
  std::string buffer_;  // [begin_, end_) is readable, the rest free
  std::size_t begin_ = 0, end_ = 0;
  std::string address_;
  bool timed_out_ = false;
  std::int64_t idle_since_us_ = 0;
};

/// Idle connections to one server; the one used last is used first.
class ConnectionPool {
 public:
  ConnectionPool(std::size_t idle_max, std::chrono::milliseconds keep_alive, const Clock& clock)
      : idle_max_(idle_max), keep_alive_(keep_alive), clock_(clock) {}

  /// One that is still good, or null.
  [[nodiscard]] std::shared_ptr<UpstreamConnection> take();
  void give_back(std::shared_ptr<UpstreamConnection> connection);
  void clear() { idle_.clear(); }

 private:
  std::size_t idle_max_;
  std::chrono::milliseconds keep_alive_;
  const Clock& clock_;
  std::vector<std::shared_ptr<UpstreamConnection>> idle_;  // newest last
};

}  // namespace verbatim::gateway
