// The HTTP/1.1 parsers: what could be read in two ways is not read at all (RFC 9112 sections 6.1 and 6.3, RFC 9110
// section 8.6).

#include "gateway/http.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbatim::gateway {
namespace {

HttpFault request_fault(const std::string& text) {
  RequestParser parser(8192, 1000);
  std::string_view rest = text;
  while (!rest.empty() && !parser.done() && parser.fault() == HttpFault::none) {
    const std::size_t used = parser.put(rest);
    if (used == 0) break;
    rest.remove_prefix(used);
  }
  return parser.fault();
}

TEST(RequestFraming, IsRefusedWhereTwoReadersCouldSeeTwoRequests) {
  const std::string start = "POST /v1/x HTTP/1.1\r\nHost: h\r\n";
  struct Case {
    HttpFault fault;
    const char* fields;
  };
  const Case cases[] = {
      {HttpFault::none, "Content-Length: 2\r\n\r\n{}"},
      {HttpFault::none, "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"},
      {HttpFault::framing_conflict, "Content-Length: 2, 2\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"},
      {HttpFault::framing_conflict, "Content-Length: 2,3\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: +2\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: 0x2\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: -1\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: 99999999999999999999\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}"},
      {HttpFault::framing_conflict,
       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding: gzip, chunked\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding: chunked, identity\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding: xchunked\r\n\r\n"},
      {HttpFault::malformed, "Content-Length : 2\r\n\r\n{}"},
      {HttpFault::malformed, "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
      {HttpFault::malformed, "Transfer-Encoding: chunked\r\n\r\n-1\r\n"},
      {HttpFault::malformed, "Host: other\r\n\r\n"},
      {HttpFault::malformed, "X: a\nContent-Length: 2\r\n\r\n"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(request_fault(start + each.fields), each.fault) << each.fields;
  }
}

TEST(RequestFraming, AnEmptyChunkedBodyMayComeInPiecesOfAnySize) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (std::size_t size = 1; size < 9; ++size) {
    RequestParser parser(8192, 1000);
    std::size_t used = 0;
    for (std::size_t came = 0; came < text.size();) {
      came = std::min(came + size, text.size());
      for (std::size_t now = 1; now > 0 && used < came && !parser.done(); used += now) {
        now = parser.put(std::string_view(text).substr(used, came - used));
      }
    }
    EXPECT_TRUE(parser.done()) << size;
    EXPECT_EQ(parser.fault(), HttpFault::none) << size;
  }
}

TEST(RequestFraming, Http11NeedsAHostAndHttp10NeedsNone) {
  EXPECT_EQ(request_fault("GET / HTTP/1.1\r\n\r\n"), HttpFault::malformed);
  EXPECT_EQ(request_fault("GET / HTTP/1.1\r\nHost:\r\n\r\n"), HttpFault::none);
  EXPECT_EQ(request_fault("GET / HTTP/1.0\r\n\r\n"), HttpFault::none);
  EXPECT_EQ(request_fault("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            HttpFault::framing_conflict);
  EXPECT_EQ(request_fault("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), HttpFault::malformed);
  EXPECT_EQ(request_fault("\x16\x03\x01\x02 a TLS hello"), HttpFault::malformed);
}

class Collected : public ResponseReader {
 public:
  void on_head(ResponseHead, std::optional<std::uint64_t>, bool) override { heads += 1; }
  void on_body(std::string_view bytes) override { body += bytes; }
  int heads = 0;
  std::string body;
};

/// "failed", "open" (more must come), or the body that was read.
std::string response_of(const std::string& text) {
  Collected got;
  ResponseParser parser(false, 8192, got);
  std::string_view rest = text;
  while (!rest.empty() && !parser.done() && !parser.failed()) {
    const std::size_t used = parser.put(rest);
    if (used == 0) break;
    rest.remove_prefix(used);
  }
  if (parser.failed()) return "failed";
  if (!parser.done() && !parser.put_eof()) return "open";
  return got.body;
}

TEST(ResponseFraming, FailsWhereAClientCouldSeeAnotherAnswer) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(response_of(ok + "Content-Length: 2\r\n\r\n{}"), "{}");
  EXPECT_EQ(response_of(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), "{}");
  EXPECT_EQ(response_of(ok + "Transfer-Encoding: identity\r\n\r\n{}"), "{}");
  EXPECT_EQ(response_of(ok + "\r\nto its end"), "to its end");
  EXPECT_EQ(response_of(ok + "Content-Length: 3\r\n\r\n{}"), "open");
  EXPECT_EQ(response_of(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), "open");
  for (const char* fields : {
           "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
           "Transfer-Encoding: gzip\r\n\r\n{}",
           "Content-Length: 2, 2\r\n\r\n{}",
           "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
           "Content-Length: 2\r\nContent-Length: 4\r\n\r\n{}{}",
           "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
           "Content-Length: two\r\n\r\n{}",
           "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
       }) {
    EXPECT_EQ(response_of(ok + fields), "failed") << fields;
  }
}

TEST(ResponseFraming, FailsOnAStatusThatIsNone) {
  for (const char* status :
       {"099 Odd", "000 None", "101 Switching Protocols", "20 OK", "2000 OK", "abc OK"}) {
    EXPECT_EQ(response_of("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 0\r\n\r\n"),
              "failed")
        << status;
  }
  EXPECT_EQ(response_of("HTTP/1.1 599 Odd\r\nContent-Length: 1\r\n\r\nx"), "x");
  EXPECT_EQ(response_of("SSH-2.0-OpenSSH_9.2\r\n\r\n"), "failed");
}

}  // namespace
}  // namespace verbatim::gateway
