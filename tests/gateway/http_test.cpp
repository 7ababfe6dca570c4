// The HTTP/1.1 parsers: what could be read in two ways is not read at all (RFC 9112 sections 6.1 and 6.3, RFC 9110
// section 8.6). What it asks for and of whom, read from it.

#include "gateway/http.hpp"

#include "gateway/host_rule.hpp"
#include "gateway/request_target.hpp"

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
      {HttpFault::malformed, "X: a\rContent-Length: 2\r\n\r\n"},
      {HttpFault::malformed, "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
      {HttpFault::malformed, "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"},
      {HttpFault::malformed, " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {HttpFault::malformed, ": x\r\n\r\n"},
      {HttpFault::malformed, "X\r\n\r\n"},
      {HttpFault::malformed, "X: a\x01\r\n\r\n"},
      {HttpFault::malformed, "X: a\x7f\r\n\r\n"},
      {HttpFault::malformed, "X: a\x0b\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding: \"chunked\"\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding: chunked;q=1\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding: chunked, chunked\r\n\r\n"},
      {HttpFault::unsupported_coding, "Transfer-Encoding:\r\n\r\n"},
      {HttpFault::framing_conflict, "Content-Length:\r\n\r\n"},
      {HttpFault::framing_conflict, "Content-Length: 2 2\r\n\r\n{}"},
      {HttpFault::framing_conflict, "Content-Length: 1_0\r\n\r\n{}"},
      {HttpFault::none, "Content-Length: 0002\r\n\r\n{}"},
      // Folded lines, in whatever field.
      {HttpFault::malformed, "X: a\r\n b\r\n\r\n"},
      {HttpFault::malformed, "X:\r\n\tb\r\n\r\n"},
      {HttpFault::malformed, "X: a\r\n \r\n\r\n"},
      {HttpFault::malformed, "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
      {HttpFault::malformed, "Content-Length:\r\n 2\r\n\r\n{}"},
      {HttpFault::none, "X:\r\nY: \t z \t\r\nZ:a\r\n\r\n"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(request_fault(start + each.fields), each.fault) << each.fields;
  }
}

TEST(RequestFraming, NulEndsNoValue) {
  using namespace std::string_literals;
  EXPECT_EQ(request_fault("GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n"s), HttpFault::malformed);
  EXPECT_EQ(request_fault("GET / HTTP/1.1\r\nHost: h\r\nX\0: a\r\n\r\n"s), HttpFault::malformed);
  EXPECT_EQ(request_fault("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n"s), HttpFault::malformed);
}

TEST(RequestFraming, ChunksAreReadInOneWay) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string end = "\r\n0\r\n\r\n";
  struct Case {
    HttpFault fault;
    std::string chunk;
  };
  const Case cases[] = {
      {HttpFault::none, "2\r\n{}"},
      {HttpFault::none, std::string(500, '0') + "2\r\n{}"},
      {HttpFault::none, "2;a=b;c=\"d\\\"e\"\r\n{}"},
      {HttpFault::none, "2\r\n{}\r\nA\r\n0123456789\r\na\r\n0123456789"},
      {HttpFault::malformed, "0x2\r\n{}"},
      {HttpFault::malformed, "+2\r\n{}"},
      {HttpFault::malformed, " 2\r\n{}"},
      {HttpFault::malformed, "2 \r\n{}"},
      {HttpFault::malformed, "\r\n{}"},
      {HttpFault::malformed, ";a\r\n{}"},
      {HttpFault::malformed, "2\n{}"},
      {HttpFault::malformed, "2\r{}"},
      {HttpFault::malformed, "2;a\n\r\n{}"},
      {HttpFault::malformed, "2;a=\"\n\"\r\n{}"},
      {HttpFault::malformed, "2;a=\"\x01\"\r\n{}"},
      {HttpFault::malformed, "2\r\n{}}"},  // a byte more than it says
      {HttpFault::malformed, "3\r\n{}"},   // a byte less
      {HttpFault::malformed, "2\r\n{}\n0"},
      {HttpFault::malformed, "10000000000000002\r\n{}"},  // 2 to the 64, and 2
      {HttpFault::malformed, "fffffffffffffffff\r\n{}"},
      {HttpFault::body_too_large, "ffffffffffffffff\r\n{}"},
      {HttpFault::body_too_large, "3e9\r\n{}"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(request_fault(start + each.chunk + end), each.fault) << each.chunk.substr(0, 40);
  }
}

TEST(RequestFraming, TrailersAreReadAndDropped) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  RequestParser parser(8192, 1000);
  const std::string whole = start + "X-Sum: 1\r\nHost: other\r\n\r\n";
  EXPECT_EQ(parser.put(whole), whole.size());
  EXPECT_TRUE(parser.done());
  EXPECT_FALSE(parser.head().fields.has("x-sum"));
  EXPECT_EQ(parser.head().fields.get("host"), "h");
  EXPECT_EQ(request_fault(start + "Content-Length: 5\r\n\r\n"), HttpFault::framing_conflict);
  EXPECT_EQ(request_fault(start + "Transfer-Encoding: chunked\r\n\r\n"),
            HttpFault::framing_conflict);
  EXPECT_EQ(request_fault(start + "X: a\r\n b\r\n\r\n"), HttpFault::malformed);
  EXPECT_EQ(request_fault(start + "X : a\r\n\r\n"), HttpFault::malformed);
}

TEST(RequestFraming, WhatStandsBetweenChunksIsBounded) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string a_lot(20'000, 'x');
  // At once: a line without end, and trailers without end.
  EXPECT_EQ(request_fault(start + "1;" + a_lot), HttpFault::header_too_large);
  EXPECT_EQ(request_fault(start + std::string(20'000, '0')), HttpFault::header_too_large);
  EXPECT_EQ(request_fault(start + "0\r\nX: " + a_lot), HttpFault::header_too_large);
  // And together: the limits of a body count its data alone.
  std::string many = start;
  for (int i = 0; i < 40; ++i) many += "1;" + std::string(500, 'x') + "\r\n{\r\n";
  EXPECT_EQ(request_fault(many), HttpFault::header_too_large);
  std::string small = start;
  for (int i = 0; i < 1000; ++i) small += "1\r\n{\r\n";
  EXPECT_EQ(request_fault(small + "0\r\n\r\n"), HttpFault::none);
}

TEST(RequestFraming, AFewEmptyLinesBeforeARequestArePassedOver) {
  const std::string request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  RequestParser parser(8192, 1000);
  EXPECT_EQ(parser.put("\r"), 0u);  // the rest must come first
  EXPECT_EQ(parser.put("\r\n"), 2u);
  EXPECT_FALSE(parser.begun());
  EXPECT_EQ(parser.put("\r\n\r"), 2u);
  EXPECT_EQ(parser.put("\r\n" + request), 2u);
  EXPECT_EQ(parser.put(request), request.size());
  EXPECT_TRUE(parser.done());
  EXPECT_EQ(request_fault("\r\n\r\n\r\n\r\n" + request), HttpFault::none);
  EXPECT_EQ(request_fault("\r\n\r\n\r\n\r\n\r\n" + request), HttpFault::malformed);
  EXPECT_EQ(request_fault("\n" + request), HttpFault::malformed);
  EXPECT_EQ(request_fault("GET / HTTP/1.1\r\n\r\nHost: h\r\n\r\n"), HttpFault::malformed);
}

TEST(RequestLine, IsReadInOneWay) {
  const std::string end = "\r\nHost: h\r\n\r\n";
  for (const char* line : {"get / HTTP/1.1", "Get / HTTP/1.1", "POSt / HTTP/1.1", "GET  / HTTP/1.1",
                           "GET / a HTTP/1.1", "GET\t/ HTTP/1.1", " GET / HTTP/1.1", "GET /",
                           "GET / HTTP/1.1 ", "GET /  HTTP/1.1", "GET / http/1.1", "GET / HTTP/1",
                           "GET / HTTP/11", "GET / HTTP/ 1.1", "G(T / HTTP/1.1", "/ HTTP/1.1"}) {
    EXPECT_EQ(request_fault(line + end), HttpFault::malformed) << line;
  }
  EXPECT_EQ(request_fault("GET / HTTP/1.1\nHost: h\r\n\r\n"), HttpFault::malformed);
  EXPECT_EQ(request_fault("GET / HTTP/1.1\rHost: h\r\n\r\n"), HttpFault::malformed);
  EXPECT_EQ(request_fault("M-SEARCH / HTTP/1.1" + end), HttpFault::none);
}

TEST(RequestLine, AnotherVersionIsToldApartFromNone) {
  EXPECT_EQ(request_fault("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), HttpFault::unsupported_version);
  for (const char* version : {"HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0"}) {
    EXPECT_EQ(request_fault("GET / " + std::string(version) + "\r\nHost: h\r\n\r\n"),
              HttpFault::unsupported_version)
        << version;
  }
  EXPECT_EQ(refusal_of(HttpFault::unsupported_version).http_status, 505);
}

RequestHead read_head(const std::string& text) {
  RequestParser parser(8192, 1000);
  EXPECT_EQ(parser.put(text), text.size()) << text;
  EXPECT_TRUE(parser.head_done()) << text;
  return parser.head();
}

TEST(RequestTarget, AUrlIsReadAsItsPathAndItsHost) {
  const auto read = [](const std::string& line) {
    const RequestHead head = read_head(line + " HTTP/1.1\r\nX: y\r\nHost: told\r\n\r\n");
    return head.target + " of " + std::string(head.fields.get("host"));
  };
  EXPECT_EQ(read("GET /v1/models?a=http://b/"), "/v1/models?a=http://b/ of told");
  EXPECT_EQ(read("GET http://h/v1/models?a=/b"), "/v1/models?a=/b of h");
  EXPECT_EQ(read("GET HTTPS://h.example:8443/x"), "/x of h.example:8443");
  EXPECT_EQ(read("GET http://[::1]:80/x"), "/x of [::1]:80");
  EXPECT_EQ(read("GET http://h"), "/ of h");
  EXPECT_EQ(read("GET http://h?q"), "/?q of h");
  EXPECT_EQ(read("OPTIONS http://h"), "* of h");
  EXPECT_EQ(read("OPTIONS http://h/"), "/ of h");
  // What is none stays what it was, for whoever refuses it.
  for (const std::string target :
       {"*", "h:443", "http:///x", "http://u:p@h/x", "http://h:x/", "ftp://h/x", "http:/x", "http",
        "https://", "http://a\\b/x", "http://[::1/x", "h/x"}) {
    EXPECT_EQ(read("GET " + target), target + " of told");
    EXPECT_FALSE(is_origin_form(target));
  }
  EXPECT_TRUE(is_origin_form("//h/x"));
  EXPECT_FALSE(is_origin_form("/x#y"));
  const RequestHead old = read_head("GET http://h/x HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.fields.get("host"), "h");
}

TEST(RequestTarget, TheLimitOfABodyIsThatOfThePath) {
  std::string seen;
  RequestParser parser(8192, [&](const RequestHead& head) {
    seen = head.target;
    return std::uint64_t{1};
  });
  parser.put("POST http://h/v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(seen, "/v1/messages");
  EXPECT_EQ(parser.fault(), HttpFault::body_too_large);
}

TEST(RequestHost, IsAHostAndPerhapsAPort) {
  const auto fault = [](const std::string& host) {
    return request_fault("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* good :
       {"", "h", "h:", "h:80", "a.b-c_d", "127.0.0.1:1", "[::1]", "[::1]:8", "%41"}) {
    EXPECT_EQ(fault(good), HttpFault::none) << good;
  }
  for (const char* bad : {"a b", "a/b", "u@h", "h:x", "h:1:2", ":80", "[::1", "::1", "[::1]8",
                          "a?b", "a#b", "a\\b", "h\xC3\xA4", "\"h\""}) {
    EXPECT_EQ(fault(bad), HttpFault::malformed) << bad;
  }
}

TEST(HostRule, AddressesAreNotReboundAndNamesMustBeKnown) {
  const HostPort listen{"verbatim.example", 8080};
  for (const char* good :
       {"", "127.0.0.1", "10.1.2.3:9090", "[::1]:9090", "[fe80::1]", "localhost:1", "LocalHost.",
        "a.localhost", "verbatim.example:8080", "Verbatim.Example.", "metrics.example"}) {
    EXPECT_TRUE(answers_to(good, listen, {"other", "Metrics.example"})) << good;
  }
  for (const char* bad : {"evil.example", "127.0.0.1.evil.example", "verbatim.example.evil",
                          "notlocalhost", "localhost.evil", "1.2.3", "[evil]", "a b", "*"}) {
    EXPECT_FALSE(answers_to(bad, listen, {"metrics.example"})) << bad;
  }
  EXPECT_TRUE(answers_to("evil.example", listen, {"*"}));
}

TEST(HostRule, APageMayAskTheHostThatItCameFrom) {
  const auto other = [](const char* origin, const char* host = "h:1") {
    Fields fields;
    fields.add("Host", host);
    if (*origin != '\0') fields.add("Origin", origin);
    return from_another_site(fields);
  };
  EXPECT_FALSE(other(""));
  EXPECT_FALSE(other("http://h:1"));
  EXPECT_FALSE(other("https://H:1"));
  for (const char* origin :
       {"null", "http://h", "http://h:2", "http://evil", "http://evil/h:1", "h:1"}) {
    EXPECT_TRUE(other(origin)) << origin;
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
  EXPECT_EQ(request_fault("\x16\x03\x01\x02 a TLS hello"), HttpFault::malformed);
}

class Collected : public ResponseReader {
 public:
  void on_head(ResponseHead given, std::optional<std::uint64_t> told, bool) override {
    heads += 1;
    head = std::move(given);
    length = told;
  }
  void on_body(std::string_view bytes) override { body += bytes; }
  int heads = 0;
  ResponseHead head;
  std::optional<std::uint64_t> length;
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

TEST(ResponseFraming, TheAnswerToHeadEndsWithItsHead) {
  for (const char* fields :
       {"Content-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n", "\r\n"}) {
    Collected got;
    ResponseParser parser(/*head_only=*/true, 8192, got);
    const std::string text = "HTTP/1.1 200 OK\r\n" + std::string(fields);
    EXPECT_EQ(parser.put(text), text.size());
    EXPECT_TRUE(parser.done()) << fields;
    EXPECT_TRUE(parser.keep_alive()) << fields;
    EXPECT_EQ(got.heads, 1);
  }
}

TEST(ResponseFraming, WhereNoBodyCanBeALengthIsNotPassedOn) {
  for (const auto& [status, kept] :
       {std::pair("101 Switching Protocols", false), std::pair("204 No Content", false),
        std::pair("304 Not Modified", true)}) {
    Collected got;
    ResponseParser parser(false, 8192, got, /*upgrade=*/true);
    const std::string text =
        "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 9\r\nX: y\r\n\r\n";
    EXPECT_EQ(parser.put(text + "next"), text.size());
    EXPECT_TRUE(parser.done());
    EXPECT_EQ(got.length.has_value(), kept) << status;
    EXPECT_EQ(got.head.fields.has("content-length"), kept) << status;
    EXPECT_TRUE(got.head.fields.has("x"));
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
