#pragma once
// A WebSocket that passes through: the bytes of both directions as they come, noted frame by frame.
//
// The upstream's Close frame, the last that it may send, is held back until the exchange is recorded, as the end of any
// answer is. The client's answer to it comes after the record's end; it is passed on, and is an echo.

#include "gateway/body_sample.hpp"
#include "gateway/client_connection.hpp"
#include "gateway/config.hpp"
#include "gateway/upstream.hpp"
#include "gateway/upstream_connection.hpp"
#include "gateway/websocket_reader.hpp"
#include "schema/clock.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// True for a request that asks for a WebSocket (RFC 6455 section 4.1).
[[nodiscard]] bool asks_for_websocket(const RequestHead& head);

/// On the gateway's thread; for one exchange. Memory: what is recorded, at most websocket_record_bytes of each
/// direction, and one read of each.
class WebSocketTunnel final : public Tunnel {
 public:
  struct Options {
    std::size_t record_bytes = 0;
    std::chrono::milliseconds idle{0};
    std::chrono::milliseconds closing{5'000};  ///< for what follows a Close frame
    std::int64_t arrived_us = 0;               ///< steady time of the request
  };
  /// `answer`: of the upstream, with its 101 before run(): says which extensions were agreed on. Must outlive this.
  WebSocketTunnel(std::shared_ptr<ClientConnection> client, Deadlines& deadlines,
                  const Clock& clock, const Fields& answer, const Options& options);

  [[nodiscard]] net::awaitable<Outcome> run(std::shared_ptr<UpstreamConnection> upstream) override;
  /// After the record: the upstream's Close goes out, and the client's answer to it goes back. At the end of a tunnel
  /// that was cut, nothing.
  [[nodiscard]] net::awaitable<void> finish();
  [[nodiscard]] bool opened() const { return upstream_ != nullptr; }

  struct Side {
    Side(bool masked, const Options& options) : reader(masked), sample(options.record_bytes) {}
    WebSocketReader reader;
    BodySample sample;
    std::uint64_t frames = 0;
  };
  [[nodiscard]] Side& from_client() { return from_client_; }
  [[nodiscard]] Side& from_upstream() { return from_upstream_; }
  /// Member `websocket` of the response leaf: schema/leaf.md.
  [[nodiscard]] Json describe() const;
  /// Content `websocket.frames`.
  [[nodiscard]] std::string frames_json() const { return frames_ + "]"; }

 private:
  void agree_on_extensions();
  [[nodiscard]] net::awaitable<void> pass_client();
  [[nodiscard]] net::awaitable<void> pass_upstream();
  void note(Side& side, char direction, std::string_view bytes);
  [[nodiscard]] Outcome judge() const;
  void stop();

  std::shared_ptr<ClientConnection> client_;
  const Clock& clock_;
  const Fields& answer_;
  Options options_;
  bool compressed_ = false;  // messages may be
  std::shared_ptr<UpstreamConnection> upstream_;
  Deadlines::Entry idle_;
  Side from_client_, from_upstream_;
  std::string frames_ = "[";
  std::uint64_t frames_left_out_ = 0;
  std::string held_;  // the upstream's Close frame
  Signal client_passed_;
  bool client_done_ = false, client_ended_ = false, upstream_ended_ = false, timed_out_ = false;
};

}  // namespace verbatim::gateway
