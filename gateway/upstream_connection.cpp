#include "gateway/upstream_connection.hpp"

#include "gateway/header_rules.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::size_t kReadBytes = 16384;
constexpr std::size_t kReadBytesMax = 262144;
constexpr std::size_t kProxyHeadBytesMax = 8192;

std::string endpoint_text(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "";
  return HostPort{endpoint.address().to_string(), endpoint.port()}.str();
}

}  // namespace

UpstreamConnection::UpstreamConnection(net::io_context& io, Deadlines& deadlines)
    : socket_(io),
      resolver_(io),
      deadline_(deadlines,
                [this] {
                  timed_out_ = true;
                  close();
                }),
      buffer_(kReadBytes, '\0') {}

void UpstreamConnection::close() {
  error_code ignored;
  resolver_.cancel();
  socket_.close(ignored);
}

UpstreamConnection::Failure UpstreamConnection::failed(std::string kind,
                                                       const error_code& error) const {
  if (timed_out_) return {"connect_timeout", "no connection in time"};
  return {std::move(kind), error.message()};
}

net::awaitable<UpstreamConnection::Failure> UpstreamConnection::connect(
    const BaseUrl& url, net::ssl::context* tls, const HttpProxy* proxy,
    std::chrono::milliseconds within) {
  deadline_.arm(within);
  auto failure = co_await reach(proxy != nullptr ? proxy->address : url.address);
  if (failure.kind.empty() && proxy != nullptr) failure = co_await ask_proxy(*proxy, url.address);
  if (failure.kind.empty() && tls != nullptr) {
    failure = co_await shake_hands(url.address.host, *tls);
  }
  if (!failure.kind.empty()) co_return failure;
  deadline_.disarm();
  if (!socket_.is_open()) co_return Failure{"connect", "cancelled"};
  co_return Failure{};
}

net::awaitable<UpstreamConnection::Failure> UpstreamConnection::reach(const HostPort& address) {
  error_code error;
  std::vector<tcp::endpoint> endpoints;
  const auto literal = net::ip::make_address(address.host, error);
  if (!error) {
    endpoints.emplace_back(literal, address.port);
  } else {
    const auto [resolve_error, found] =
        co_await resolver_.async_resolve(address.host, std::to_string(address.port), kTuple);
    if (resolve_error) co_return failed("resolve", resolve_error);
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  }
  const auto [connect_error, endpoint] = co_await net::async_connect(socket_, endpoints, kTuple);
  if (connect_error) co_return failed("connect", connect_error);
  socket_.set_option(tcp::no_delay(true), error);
  address_ = endpoint_text(socket_);
  co_return Failure{};
}

net::awaitable<UpstreamConnection::Failure> UpstreamConnection::ask_proxy(const HttpProxy& proxy,
                                                                          const HostPort& target) {
  const std::string request = connect_request(proxy, target);
  const net::const_buffer piece = net::buffer(request);
  const error_code write_error = co_await write_all(socket_, tls_, {&piece, 1});
  if (write_error) co_return failed("proxy", write_error);
  std::string head;
  std::array<char, 1> byte;  // one by one: what follows the blank line is the server's
  while (!head.ends_with("\r\n\r\n")) {
    if (head.size() >= kProxyHeadBytesMax)
      co_return Failure{"proxy", "the proxy's answer is no HTTP"};
    const auto [error, got] = co_await socket_.async_read_some(net::buffer(byte), kTuple);
    if (error) co_return failed("proxy", error);
    head.push_back(byte[0]);
  }
  if (connected(head)) co_return Failure{};
  co_return Failure{
      "proxy", "the proxy does not connect: " + leaf_text(head.substr(0, head.find('\r')), 64)};
}

net::awaitable<UpstreamConnection::Failure> UpstreamConnection::shake_hands(
    const std::string& host, net::ssl::context& context) {
  tls_.emplace(socket_, context);
  error_code error;
  static_cast<void>(net::ip::make_address(host, error));
  const bool is_name = static_cast<bool>(error);
  // A literal address is not sent as the server's name (RFC 6066 section 3).
  if (is_name && SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str()) != 1) {
    co_return Failure{"tls", "the server's name cannot be sent"};
  }
  tls_->set_verify_mode(net::ssl::verify_peer, error);
  tls_->set_verify_callback(net::ssl::host_name_verification(host), error);
  const auto [handshake_error] =
      co_await tls_->async_handshake(net::ssl::stream_base::client, kTuple);
  if (!handshake_error) co_return Failure{};
  const long verdict = SSL_get_verify_result(tls_->native_handle());
  if (verdict != X509_V_OK && !timed_out_) {
    co_return Failure{
        "tls", std::string("certificate refused: ") + X509_verify_cert_error_string(verdict)};
  }
  co_return failed("tls", handshake_error);
}

net::awaitable<error_code> UpstreamConnection::write(std::array<net::const_buffer, 2> pieces,
                                                     std::chrono::milliseconds within) {
  deadline_.arm(within);
  const error_code result = co_await write_all(socket_, tls_, pieces);
  deadline_.disarm();
  co_return result;
}

net::awaitable<error_code> UpstreamConnection::read_some(std::chrono::milliseconds within) {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  // A read that filled the buffer shows that more is coming than it holds.
  if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
  const auto space = net::buffer(buffer_.data() + end_, buffer_.size() - end_);
  deadline_.arm(within);
  error_code result;
  std::size_t got = 0;
  if (tls_) {
    const auto [error, bytes] = co_await tls_->async_read_some(space, kTuple);
    result = error;
    got = bytes;
  } else {
    const auto [error, bytes] = co_await socket_.async_read_some(space, kTuple);
    result = error;
    got = bytes;
  }
  deadline_.disarm();
  if (got == space.size() && buffer_.size() < kReadBytesMax) buffer_.resize(buffer_.size() * 2);
  end_ += got;
  co_return got > 0 ? error_code() : result;
}

void UpstreamConnection::consume(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

bool UpstreamConnection::still_good() {
  if (!socket_.is_open() || begin_ != end_) return false;
  char byte = 0;
  const auto got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool UpstreamConnection::has_news() {
  if (tls_ || !socket_.is_open()) return false;
  char byte = 0;
  return ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

std::shared_ptr<UpstreamConnection> ConnectionPool::take() {
  const std::int64_t oldest_us = clock_.steady_us() - keep_alive_.count() * 1000;
  while (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    if (connection->idle_since_us() < oldest_us) {
      idle_.clear();  // the others have waited longer still
      return nullptr;
    }
    if (connection->still_good()) return connection;
  }
  return nullptr;
}

void ConnectionPool::give_back(std::shared_ptr<UpstreamConnection> connection) {
  if (idle_.size() >= idle_max_) return;
  connection->set_idle_since_us(clock_.steady_us());
  idle_.push_back(std::move(connection));
}

}  // namespace verbatim::gateway
