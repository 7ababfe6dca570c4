// WebSocket frames found in bytes, however they are cut.

#include "gateway/websocket_reader.hpp"

#include <gtest/gtest.h>

#include <string>

namespace verbatim::gateway {
namespace {

std::string frame(int first, const std::string& payload, bool masked = false) {
  std::string out(1, static_cast<char>(first));
  const int mask = masked ? 0x80 : 0;
  if (payload.size() < 126) {
    out.push_back(static_cast<char>(mask | static_cast<int>(payload.size())));
  } else {
    out.push_back(static_cast<char>(mask | 126));
    out.push_back(static_cast<char>(payload.size() >> 8));
    out.push_back(static_cast<char>(payload.size() & 255));
  }
  if (!masked) return out + payload;
  const std::string key = "\x01\x02\x03\x04";
  out += key;
  for (std::size_t i = 0; i < payload.size(); ++i) {
    out.push_back(static_cast<char>(payload[i] ^ key[i % 4]));
  }
  return out;
}

TEST(WebSocketReader, FindsFramesInPiecesOfAnySize) {
  const std::string bytes = frame(0x01, "frag") + frame(0x89, "ping") + frame(0x80, "ment") +
                            frame(0x82, std::string(300, 'b')) + frame(0x81, "") +
                            frame(0x88,
                                  "\x03\xE8"
                                  "bye");
  for (std::size_t size : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    WebSocketReader reader(false, false);
    for (std::size_t at = 0; at < bytes.size(); at += size) reader.push(bytes.substr(at, size));
    const auto frames = reader.take_frames();
    ASSERT_EQ(frames.size(), 6u);
    EXPECT_EQ(frames[0].first, 0x01);
    EXPECT_EQ(frames[1].begin, 6u);
    EXPECT_EQ(frames[3].first, 0x82);
    EXPECT_EQ(reader.close_begin(), bytes.size() - 7);
    EXPECT_TRUE(reader.closed());
    EXPECT_EQ(reader.close_code(), 1000);
    EXPECT_EQ(reader.fault(), "");
    EXPECT_EQ(reader.bytes(), bytes.size());
  }
}

TEST(WebSocketReader, ReadsTheCodeOfAMaskedCloseAndTheLackOfOne) {
  WebSocketReader client(true, false);
  client.push(frame(0x88, "\x0F\xA0", true));
  EXPECT_EQ(client.close_code(), 4000);
  EXPECT_EQ(client.fault(), "");
  WebSocketReader bare(false, false);
  bare.push(frame(0x88, ""));
  EXPECT_TRUE(bare.closed());
  EXPECT_EQ(bare.close_code(), 1005);
}

TEST(WebSocketReader, NamesWhatIsWrong) {
  const auto fault = [](const std::string& bytes, bool masked = false, bool extensions = false) {
    WebSocketReader reader(masked, extensions);
    reader.push(bytes);
    return std::string(reader.fault());
  };
  EXPECT_EQ(fault(frame(0x83, "a")), "a reserved opcode");
  EXPECT_EQ(fault(frame(0xC1, "a")), "a reserved bit without an extension");
  EXPECT_EQ(fault(frame(0xC1, "a"), false, true), "");
  EXPECT_EQ(fault(frame(0x81, "a"), true), "a frame that is not masked");
  EXPECT_EQ(fault(frame(0x81, "a", true)), "a frame that is masked");
  EXPECT_EQ(fault(frame(0x09, "a")), "a control frame in fragments");
  EXPECT_EQ(fault(frame(0x89, std::string(126, 'a'))), "a control frame that is too long");
  EXPECT_EQ(fault(frame(0x80, "a")), "a continuation of nothing");
  EXPECT_EQ(fault(frame(0x01, "a") + frame(0x81, "b")), "a message inside another one");
  EXPECT_EQ(fault(std::string("\x82\x7F\xFF\0\0\0\0\0\0\0zzz", 13)), "a length beyond 2^63");
}

}  // namespace
}  // namespace verbatim::gateway
