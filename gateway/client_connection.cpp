#include "gateway/client_connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace verbatim::gateway {

namespace {
constexpr std::size_t kReadBytes = 16384;
constexpr std::chrono::milliseconds kCloseWithin{1000};
}  // namespace

ClientConnection::ClientConnection(tcp::socket socket, Deadlines& deadlines,
                                   std::size_t buffer_bytes_max,
                                   std::shared_ptr<net::ssl::context> tls)
    : tls_context_(std::move(tls)),
      socket_(std::move(socket)),
      deadline_(deadlines,
                [this] {
                  timed_out_ = true;
                  error_code ignored;
                  socket_.cancel(ignored);
                }),
      buffer_(kReadBytes, '\0'),
      buffer_bytes_max_(buffer_bytes_max) {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  if (tls_context_) tls_.emplace(socket_, *tls_context_);
}

net::awaitable<bool> ClientConnection::shake_hands(std::chrono::milliseconds within) {
  if (!tls_) co_return true;
  deadline_.arm(within);
  const auto [error] = co_await tls_->async_handshake(net::ssl::stream_base::server, kTuple);
  deadline_.disarm();
  if (error) gone_ = true;
  co_return !error;
}

void ClientConnection::consume(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_ && !reading_) begin_ = end_ = 0;
}

void ClientConnection::read_ahead() {
  if (reading_ || gone_ || half_closed_ || !socket_.is_open()) return;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ >= buffer_bytes_max_) return;
  if (buffer_.size() - end_ < kReadBytes / 2) buffer_.resize(buffer_.size() * 2);
  reading_ = true;
  const auto space = net::buffer(buffer_.data() + end_, buffer_.size() - end_);
  auto done = [self = shared_from_this()](error_code error, std::size_t bytes) {
    self->read_done(error, bytes);
  };
  if (tls_) {
    tls_->async_read_some(space, std::move(done));
  } else {
    socket_.async_read_some(space, std::move(done));
  }
}

void ClientConnection::read_done(error_code error, std::size_t bytes) {
  reading_ = false;
  if (error == net::error::eof && !tls_) {
    half_closed_ = true;
    watch_for_reset();
  } else if (error) {
    gone_ = true;
  } else {
    end_ += bytes;
  }
  if (waiting_) {
    read_signal_.wake();
  } else if (gone_) {
    tell_gone();
  } else if (half_closed_) {
    if (const auto tell = std::exchange(tell_half_closed_, nullptr)) tell();
  }
}

void ClientConnection::tell_gone() {
  if (const auto tell = std::exchange(tell_gone_, nullptr)) tell();
}

void ClientConnection::watch_for_reset() {
  socket_.async_wait(tcp::socket::wait_error, [self = shared_from_this()](error_code error) {
    if (error) return;  // the connection was closed here, or its deadline has passed
    self->gone_ = true;
    self->tell_gone();
  });
}

void ClientConnection::probe(std::string_view opening) {
  if (probed_ > 0 || gone_) return;
  const auto sent =
      ::send(socket_.native_handle(), opening.data(), opening.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) probed_ = static_cast<std::size_t>(sent);
}

void ClientConnection::give_up() {
  gone_ = true;
  tell_gone();
}

void ClientConnection::stop_waiting() {
  if (waiting_) read_signal_.wake();
}

void ClientConnection::interrupt() {
  interrupted_ = true;
  if (waiting_) {
    read_signal_.wake();
  } else {
    tell_gone();
  }
}

net::awaitable<bool> ClientConnection::more(std::chrono::milliseconds within) {
  if (gone_ || half_closed_ || interrupted_) co_return false;
  const std::size_t before = end_ - begin_;
  deadline_.arm(within);
  read_ahead();
  waiting_ = true;
  if (reading_) co_await read_signal_.wait();
  waiting_ = false;
  deadline_.disarm();
  co_return !gone_ && end_ - begin_ > before;
}

net::awaitable<bool> ClientConnection::write(std::vector<net::const_buffer> pieces,
                                             std::chrono::milliseconds within) {
  if (gone_) co_return false;
  pieces.front() += std::exchange(probed_, 0);
  deadline_.arm(within);
  const error_code result = co_await write_all(socket_, tls_, pieces);
  deadline_.disarm();
  if (result) gone_ = true;
  co_return !result;
}

net::awaitable<void> ClientConnection::linger(std::chrono::milliseconds within) {
  error_code ignored;
  if (!tls_) socket_.shutdown(tcp::socket::shutdown_send, ignored);
  // Closing with unread bytes would send a reset, which can overtake the answer.
  for (std::size_t left = 1u << 20; left > 0;) {
    begin_ = end_ = reading_ ? end_ : 0;
    const bool got = co_await more(within);
    if (!got) break;
    left -= std::min(left, end_ - begin_);
  }
  close();
}

void ClientConnection::close() {
  if (std::exchange(closing_, true)) return;
  if (!tls_ || gone_ || !socket_.is_open()) return close_socket();
  // Says that this is the end, and does not wait for the same word from the client: the reads that are under way, and
  // those of the shutdown, find the end of the stream.
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_receive, ignored);
  deadline_.arm(kCloseWithin);
  tls_->async_shutdown([self = shared_from_this()](error_code) { self->close_socket(); });
}

void ClientConnection::close_socket() {
  deadline_.disarm();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void ClientConnection::abort() {
  error_code ignored;
  socket_.set_option(net::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

}  // namespace verbatim::gateway
