#pragma once
// Comments in a stream that is silent, so that proxies on the way to the client do not take it for dead. They are the
// gateway's own: no event, no activity of the upstream's, and no part of the recorded body.

#include "gateway/client_connection.hpp"
#include "gateway/deadline.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

namespace verbatim::gateway {

/// On the gateway's thread; for one answer.
class StreamComments {
 public:
  /// One comment after every `after` of silence.
  StreamComments(ClientConnection& client, Deadlines& deadlines, std::chrono::milliseconds after,
                 std::chrono::milliseconds write_within);

  /// From now on, until pause(), the stream may be silent: what has gone out ends with a line. `chunked`: its framing.
  void watch(bool chunked);
  /// Nothing of a comment goes out after this; before anything else is written. Waits for one that is on its way.
  [[nodiscard]] net::awaitable<void> pause();
  [[nodiscard]] std::size_t sent() const { return sent_; }

 private:
  struct Writing {  // shared with the comment's own coroutine, which may outlive the answer
    bool busy = false;
    Signal done;
  };
  void send();

  ClientConnection& client_;
  std::chrono::milliseconds after_, write_within_;
  Deadlines::Entry due_;
  bool chunked_ = false;
  std::size_t sent_ = 0;
  std::shared_ptr<Writing> writing_ = std::make_shared<Writing>();
};

}  // namespace verbatim::gateway
