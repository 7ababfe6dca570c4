#pragma once
// The client's end of a connection: reads ahead while an exchange runs, so that a client who leaves
// is noticed at once, and writes with a deadline.

#include "gateway/byte_stream.hpp"
#include "gateway/deadline.hpp"
#include "gateway/net.hpp"

#include <boost/asio/ssl/context.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// On the gateway's thread. Shared, because a read that is under way keeps it alive after its
/// session.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  /// Reads ahead until `buffer_bytes_max` bytes wait. `tls`: null for plain HTTP.
  ClientConnection(tcp::socket socket, Deadlines& deadlines, std::size_t buffer_bytes_max,
                   std::shared_ptr<net::ssl::context> tls = nullptr);

  /// With TLS, before anything else: false if the client cannot be spoken to, or is not let in. Else true at once.
  [[nodiscard]] net::awaitable<bool> shake_hands(std::chrono::milliseconds within);

  /// What has been read and not yet consumed.
  [[nodiscard]] std::string_view readable() const {
    return std::string_view(buffer_).substr(begin_, end_ - begin_);
  }
  void consume(std::size_t bytes);

  /// Waits for more bytes. False when the client has closed, ended its sending side, failed, or not sent anything for
  /// `within`, and when interrupt() was called.
  [[nodiscard]] net::awaitable<bool> more(std::chrono::milliseconds within);

  /// Ends a wait in more() as if nothing had come; what does come later is there for the next one.
  void stop_waiting();
  [[nodiscard]] tcp::socket::executor_type executor() { return socket_.get_executor(); }

  /// Starts to read without waiting: from here on a client who closes is noticed.
  void read_ahead();
  /// Runs once, when the client goes, or interrupt() is called, while nobody waits in more(). Null to take it back.
  void on_gone(std::function<void()> tell) { tell_gone_ = std::move(tell); }
  [[nodiscard]] bool gone() const { return gone_; }

  /// Runs once, when the client ends its sending side while nobody waits in more(): it has left, or it only sends no
  /// more and still waits for its answer. TCP does not tell which until something is written. Plain HTTP only: with TLS
  /// who sends no more has left. Null to take it back.
  void on_half_closed(std::function<void()> tell) { tell_half_closed_ = std::move(tell); }
  [[nodiscard]] bool half_closed() const { return half_closed_; }
  /// Finds out whether a client that sends no more is still there, at no cost: sends `opening`, the bytes with which
  /// any answer begins, and leaves them out of the next write(), which must begin with them. If the client has left,
  /// its host answers with a reset, and on_gone() runs. Only while nothing of an answer has been written.
  void probe(std::string_view opening);
  /// A client that sends no more has left.
  void give_up();

  /// The gateway ends: whoever works for this client is told as by on_gone(), but may still write.
  void interrupt();
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  /// After a read that came too late: the client may still be told so.
  void forgive_timeout() { gone_ = timed_out_ = false; }

  /// Writes all of it. False if the client has gone or took longer than `within`.
  [[nodiscard]] net::awaitable<bool> write(std::vector<net::const_buffer> pieces,
                                           std::chrono::milliseconds within);

  /// True while there is nothing of a request: the session may be closed without harm.
  void set_idle(bool idle) { idle_ = idle; }
  [[nodiscard]] bool idle() const { return idle_; }

  /// Ends the connection properly: what was written arrives, if the client has sent nothing more.
  void close();
  /// As close(), but first reads and drops what the client is still sending, for at most `within` a
  /// read.
  [[nodiscard]] net::awaitable<void> linger(std::chrono::milliseconds within);
  /// Ends it with a reset, so that no client takes a cut answer for a whole one.
  void abort();

 private:
  void read_done(error_code error, std::size_t bytes);
  void close_socket();
  void watch_for_reset();
  void tell_gone();

  std::shared_ptr<net::ssl::context> tls_context_;  // null: plain
  tcp::socket socket_;
  std::optional<TlsStream> tls_;
  Deadlines::Entry deadline_;
  std::string buffer_;  // [begin_, end_) is readable, the rest free
  std::size_t begin_ = 0, end_ = 0;
  std::size_t buffer_bytes_max_;
  bool reading_ = false;
  bool gone_ = false;
  bool closing_ = false;
  bool half_closed_ = false;
  bool interrupted_ = false;
  bool timed_out_ = false;
  bool idle_ = true;
  bool waiting_ = false;    // in more()
  std::size_t probed_ = 0;  // of the next write, already sent
  Signal read_signal_;
  std::function<void()> tell_gone_, tell_half_closed_;
};

}  // namespace verbatim::gateway
