// WebSocket frames: the same frames, end and fault in pieces of any size.

#include "gateway/websocket_reader.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

using gateway::WebSocketFrame;
using gateway::WebSocketReader;

void run(std::string_view input) {
  const std::uint8_t choice = take_choice(input);
  const std::uint8_t kind = take_choice(input);
  WebSocketReader whole((kind & 1) != 0, (kind & 2) != 0);
  WebSocketReader cut((kind & 1) != 0, (kind & 2) != 0);
  whole.push(input);
  std::vector<WebSocketFrame> frames;
  in_pieces(input, choice, [&](std::string_view piece) {
    cut.push(piece);
    for (const WebSocketFrame& frame : cut.take_frames()) frames.push_back(frame);
  });
  const auto expected = whole.take_frames();
  VERBATIM_CHECK(frames.size() == expected.size());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    VERBATIM_CHECK(frames[i].begin == expected[i].begin && frames[i].first == expected[i].first);
    VERBATIM_CHECK(i == 0 || frames[i].begin > at);
    at = frames[i].begin;
    VERBATIM_CHECK(at < input.size());
    VERBATIM_CHECK(static_cast<std::uint8_t>(input[at]) == frames[i].first);
  }
  VERBATIM_CHECK(whole.bytes() == cut.bytes() && whole.bytes() <= input.size());
  VERBATIM_CHECK(whole.close_begin() == cut.close_begin());
  VERBATIM_CHECK(whole.closed() == cut.closed());
  VERBATIM_CHECK(!whole.closed() || whole.close_begin().has_value());
  VERBATIM_CHECK(whole.close_code() == cut.close_code());
  VERBATIM_CHECK(whole.fault() == cut.fault());
}

std::vector<std::string> seeds() {
  const std::string hello("\x81\x05hello", 7), ping("\x89\x00", 2), close("\x88\x02\x03\xE8", 4);
  const std::string masked("\x81\x85\x01\x02\x03\x04iqjhn", 11);
  const std::string masked_close("\x88\x82\x01\x02\x03\x04\x02\xEA", 8);
  const std::string parts("\x01\x02he\x80\x03llo", 9);
  const std::string long16 = std::string("\x82\x7E\x01\x00", 4) + std::string(256, 'x');
  const std::string long64("\x82\x7F\x00\x00\x00\x00\x00\x01\x00\x00", 10);
  return {hello + ping + close + std::string("\x00\x00", 2),
          masked + masked_close + std::string("\x01\x01", 2),
          parts + long16 + close + std::string("\x02\x09", 2), long64 + std::string("\x00\x50", 2)};
}

const Registration kWebSocket({"websocket",
                               run,
                               seeds,
                               {std::string("\x7F\x80\x00\x00\x00\x00\x00\x00\x00", 9),
                                "\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                                std::string("\x7E\x00\x01", 3), "\x88", "\xFE\xFF"}});

}  // namespace

}  // namespace verbatim::fuzz
