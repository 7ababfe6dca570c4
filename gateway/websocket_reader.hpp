#pragma once
// WebSocket frames (RFC 6455 section 5) found in the bytes of one direction, which stay as they are.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

struct WebSocketFrame {
  std::uint64_t begin = 0;  ///< of its header, in the bytes of this direction
  std::uint8_t first = 0;   ///< its first byte: FIN, RSV1 to RSV3, opcode
};

/// Follows one direction byte by byte, in pieces of any size; keeps no payload.
class WebSocketReader {
 public:
  /// `masked`: frames must be masked, as a client's must. `extensions`: as allow_extensions().
  explicit WebSocketReader(bool masked, bool extensions = false)
      : masked_(masked), extensions_(extensions) {}
  /// Some were agreed on: reserved bits may be set.
  void allow_extensions() { extensions_ = true; }

  void push(std::string_view bytes);
  /// Frames whose header has been read since the last take.
  [[nodiscard]] std::vector<WebSocketFrame> take_frames();

  /// Where the first Close frame begins.
  [[nodiscard]] std::optional<std::uint64_t> close_begin() const { return close_begin_; }
  /// It has been read to its end; what follows has no meaning (section 5.5.1).
  [[nodiscard]] bool closed() const { return closed_; }
  /// Its status code; 1005 if it has none (section 7.1.5). Only if closed().
  [[nodiscard]] std::uint16_t close_code() const { return close_code_; }
  [[nodiscard]] std::uint64_t bytes() const { return at_; }
  /// What is wrong with the frames, the first of it; "" if nothing. They are passed on all the same.
  [[nodiscard]] std::string_view fault() const { return fault_; }

 private:
  void end_header();
  void check_header();
  void end_frame();
  void blame(std::string_view fault) {
    if (fault_.empty()) fault_ = fault;
  }

  bool masked_, extensions_;
  std::uint64_t at_ = 0;
  std::uint64_t frame_begin_ = 0;
  std::array<std::uint8_t, 14> header_{};
  std::size_t header_got_ = 0, header_need_ = 2;
  std::uint64_t payload_left_ = 0;
  std::array<std::uint8_t, 2> code_{};  // of a Close frame
  std::size_t code_got_ = 0;
  bool in_message_ = false;  // more fragments of it must come
  bool lost_ = false;        // a length that cannot be: where the next frame begins is unknown
  std::optional<std::uint64_t> close_begin_;
  bool closed_ = false;
  std::uint16_t close_code_ = 1005;
  std::string_view fault_;
  std::vector<WebSocketFrame> frames_;
};

}  // namespace verbatim::gateway
