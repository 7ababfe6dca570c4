#include "gateway/stream_comments.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <string_view>
#include <vector>

namespace verbatim::gateway {

namespace {
// One line, and no blank one: a comment with an empty event behind it trips some clients.
constexpr std::string_view kComment = ":\n";
constexpr std::string_view kCommentChunk = "2\r\n:\n\r\n";
}  // namespace

StreamComments::StreamComments(ClientConnection& client, Deadlines& deadlines,
                               std::chrono::milliseconds after,
                               std::chrono::milliseconds write_within)
    : client_(client),
      after_(after),
      write_within_(write_within),
      due_(deadlines, [this] { send(); }) {}

void StreamComments::watch(bool chunked) {
  chunked_ = chunked;
  due_.arm(after_);
}

net::awaitable<void> StreamComments::pause() {
  due_.disarm();
  if (writing_->busy) co_await writing_->done.wait();
}

void StreamComments::send() {
  if (writing_->busy || client_.gone()) return;
  ++sent_;
  writing_->busy = true;
  due_.arm(after_);
  const std::string_view text = chunked_ ? kCommentChunk : kComment;
  net::co_spawn(
      client_.executor(),
      [](std::shared_ptr<ClientConnection> client, std::shared_ptr<Writing> writing,
         std::string_view comment, std::chrono::milliseconds within) -> net::awaitable<void> {
        const std::vector<net::const_buffer> pieces(1, net::buffer(comment.data(), comment.size()));
        const bool there = co_await client->write(pieces, within);
        writing->busy = false;
        writing->done.wake();
        if (!there) client->give_up();
      }(client_.shared_from_this(), writing_, text, write_within_),
      net::detached);
}

}  // namespace verbatim::gateway
