#pragma once
// Both ends of the gateway as raw sockets: what is sent and received is exactly what a test says.

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace verbatim::test {

/// A blocking TCP connection; every read gives up after five seconds.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  Wire(Wire&& other) noexcept : fd_(std::exchange(other.fd_, -1)), kept_(std::move(other.kept_)) {}
  Wire& operator=(Wire&&) = delete;
  ~Wire() { close(); }

  static Wire connect(std::uint16_t port) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket socket(io);
    socket.connect({boost::asio::ip::address_v4::loopback(), port});
    return Wire(socket.release());
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Reads until the text has been seen, and returns everything up to and with it; what follows is
  /// kept. At the end of the connection, or after the timeout, returns what there is.
  std::string read_until(std::string_view text, int timeout_ms = 5000) {
    for (;;) {
      const std::size_t at = kept_.find(text);
      if (at != std::string::npos) {
        std::string out = kept_.substr(0, at + text.size());
        kept_.erase(0, at + text.size());
        return out;
      }
      if (!fill(timeout_ms)) return std::exchange(kept_, {});
    }
  }
  std::string read_bytes(std::size_t bytes) {
    while (kept_.size() < bytes && fill(5000)) {
    }
    std::string out = kept_.substr(0, bytes);
    kept_.erase(0, out.size());
    return out;
  }
  /// Everything until the peer closes or resets.
  std::string read_all() {
    while (fill(5000)) {
    }
    return std::exchange(kept_, {});
  }
  /// What comes within so many milliseconds.
  std::string read_for(int ms) {
    while (fill(ms)) {
    }
    return std::exchange(kept_, {});
  }
  [[nodiscard]] int handle() const { return fd_; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] bool was_reset() const { return reset_; }

  /// Sends no more; still reads.
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  bool fill(int timeout_ms) {
    pollfd ready{fd_, POLLIN, 0};
    if (ended_ || ::poll(&ready, 1, timeout_ms) <= 0) return false;
    char piece[65536];
    const auto got = ::recv(fd_, piece, sizeof piece, 0);
    if (got <= 0) {
      ended_ = true;
      reset_ = got < 0;
      return false;
    }
    kept_.append(piece, static_cast<std::size_t>(got));
    return true;
  }

  int fd_;
  std::string kept_;
  bool ended_ = false, reset_ = false;
};

/// A whole HTTP message as it came: head with the blank line, and body by Content-Length or chunks
/// (as framed).
struct Message {
  std::string head, body;
};

/// Reads a message that has a Content-Length, or is chunked, or has no body.
inline Message read_message(Wire& wire) {
  Message message;
  message.head = wire.read_until("\r\n\r\n");
  std::string lower = message.head;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (const auto at = lower.find("\r\ncontent-length:"); at != std::string::npos) {
    message.body = wire.read_bytes(std::stoul(lower.substr(at + 17)));
  } else if (lower.find("\r\ntransfer-encoding: chunked") != std::string::npos) {
    for (;;) {
      const std::string size = wire.read_until("\r\n");
      if (size.empty()) break;
      const std::size_t bytes = std::stoul(size, nullptr, 16);
      const std::string data = wire.read_bytes(bytes + 2);
      if (bytes == 0) break;
      message.body += data.substr(0, bytes);
    }
  }
  return message;
}

/// A server that answers as a test says: `serve` is called for every connection, on a thread of its
/// own.
class MockUpstream {
 public:
  using Serve = std::function<void(Wire&)>;

  explicit MockUpstream(Serve serve)
      : serve_(std::move(serve)),
        acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}),
        thread_([this] { accept(); }) {}
  ~MockUpstream() {
    stop_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    for (auto& each : sessions_) each.join();
  }

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void accept() {
    while (!stop_) {
      const int fd = ::accept(acceptor_.native_handle(), nullptr, nullptr);
      if (fd < 0) return;
      ++connections_;
      sessions_.emplace_back([this, fd] {
        Wire wire(fd);
        serve_(wire);
      });
    }
  }

  Serve serve_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> connections_ = 0;
  std::vector<std::thread> sessions_;
  std::thread thread_;
};

}  // namespace verbatim::test
