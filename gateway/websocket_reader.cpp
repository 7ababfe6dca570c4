#include "gateway/websocket_reader.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::gateway {

namespace {
constexpr std::uint8_t kFin = 0x80, kReserved = 0x70, kOpcode = 0x0F;
constexpr std::uint8_t kContinuation = 0, kBinary = 2, kClose = 8, kPong = 10;
constexpr std::uint8_t kMask = 0x80, kLength = 0x7F;
constexpr std::uint64_t kControlBytesMax = 125;
}  // namespace

void WebSocketReader::push(std::string_view bytes) {
  while (!bytes.empty() && !lost_ && !closed_) {
    if (header_got_ < header_need_) {
      if (header_got_ == 0) frame_begin_ = at_;
      header_[header_got_++] = static_cast<std::uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      ++at_;
      if (header_got_ == 2) {
        const std::uint8_t length = header_[1] & kLength;
        header_need_ = 2 +
                       (length == 126   ? 2
                        : length == 127 ? 8
                                        : 0) +
                       ((header_[1] & kMask) != 0 ? 4 : 0);
      }
      if (header_got_ == header_need_) end_header();
      continue;
    }
    const auto piece =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), payload_left_));
    for (std::size_t i = 0; i < piece && code_got_ < code_.size(); ++i) {
      code_[code_got_++] = static_cast<std::uint8_t>(bytes[i]);
    }
    bytes.remove_prefix(piece);
    at_ += piece;
    payload_left_ -= piece;
    if (payload_left_ == 0) end_frame();
  }
  at_ += bytes.size();
}

void WebSocketReader::end_header() {
  const std::uint8_t short_length = header_[1] & kLength;
  payload_left_ = short_length;
  if (short_length >= 126) {
    payload_left_ = 0;
    for (std::size_t i = 2; i < (short_length == 126 ? 4U : 10U); ++i) {
      payload_left_ = payload_left_ << 8 | header_[i];
    }
  }
  frames_.push_back({frame_begin_, header_[0]});
  check_header();
  if (payload_left_ >> 63 != 0) {
    blame("a length beyond 2^63");
    lost_ = true;
    return;
  }
  code_got_ = 0;
  const std::uint8_t opcode = header_[0] & kOpcode;
  if (opcode == kClose && !close_begin_) close_begin_ = frame_begin_;
  if (payload_left_ == 0) end_frame();
}

void WebSocketReader::check_header() {
  const std::uint8_t opcode = header_[0] & kOpcode;
  const bool fin = (header_[0] & kFin) != 0;
  if ((opcode > kBinary && opcode < kClose) || opcode > kPong) blame("a reserved opcode");
  if ((header_[0] & kReserved) != 0 && !extensions_) blame("a reserved bit without an extension");
  if (((header_[1] & kMask) != 0) != masked_) {
    blame(masked_ ? "a frame that is not masked" : "a frame that is masked");
  }
  if (opcode >= kClose) {
    if (!fin) blame("a control frame in fragments");
    if (payload_left_ > kControlBytesMax) blame("a control frame that is too long");
    return;
  }
  if (opcode == kContinuation && !in_message_) blame("a continuation of nothing");
  if (opcode != kContinuation && in_message_) blame("a message inside another one");
  in_message_ = !fin;
}

void WebSocketReader::end_frame() {
  header_need_ = 2;
  const bool has_mask = (header_[1] & kMask) != 0;
  const std::size_t mask_at = header_got_ - 4;
  header_got_ = 0;
  if ((header_[0] & kOpcode) != kClose) return;
  closed_ = true;
  if (code_got_ < 2) return;
  if (has_mask) {
    code_[0] ^= header_[mask_at];
    code_[1] ^= header_[mask_at + 1];
  }
  close_code_ = static_cast<std::uint16_t>(code_[0] << 8 | code_[1]);
}

std::vector<WebSocketFrame> WebSocketReader::take_frames() { return std::exchange(frames_, {}); }

}  // namespace verbatim::gateway
