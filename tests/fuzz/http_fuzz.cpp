// HTTP messages of clients and of upstreams: read the same in pieces of any size, and no more than was allowed for.

#include "gateway/http.hpp"
#include "tests/fuzz/target.hpp"

#include <optional>

namespace verbatim::fuzz {

namespace {

using namespace gateway;

constexpr std::uint32_t kHeaderMax = 1024;
constexpr std::uint64_t kBodyMax = 4096;

struct Read {
  bool head = false, done = false, failed = false, keep_alive = false;
  HttpFault fault = HttpFault::none;
  int status = 0;
  std::string target, names, body;
  std::size_t used = 0;
  bool operator==(const Read&) const = default;
};

/// Read whole, and without a fault.
bool is_good(const Read& read) {
  return read.done && !read.failed && read.fault == HttpFault::none;
}

std::string names_of(const Fields& fields) {
  std::string all;
  for (const Field& field : fields.all()) all += field.name + ":" + field.value + "\n";
  return all;
}

/// Puts in what came, piece by piece, as a connection does: what was not used comes again with more behind it.
template <class Parser, class Stop>
std::size_t feed(Parser& parser, std::string_view bytes, std::uint8_t choice, Stop stop) {
  std::size_t used = 0, came = 0;
  in_pieces(bytes, choice, [&](std::string_view piece) {
    came += piece.size();
    for (;;) {
      if (stop()) return;
      const std::size_t now = parser.put(bytes.substr(used, came - used));
      VERBATIM_CHECK(now <= came - used);
      used += now;
      if (now == 0 || used == came) return;
    }
  });
  return used;
}

Read read_request(std::string_view bytes, std::uint8_t choice) {
  RequestParser parser(kHeaderMax, kBodyMax);
  Read out;
  out.used = feed(parser, bytes, choice,
                  [&] { return parser.done() || parser.fault() != HttpFault::none; });
  out.fault = parser.fault();
  out.head = parser.head_done();
  out.done = parser.done();
  if (out.fault != HttpFault::none || !out.head) return out;
  out.keep_alive = parser.keep_alive();
  out.target = parser.head().method + " " + parser.head().target;
  out.names = names_of(parser.head().fields);
  out.body = parser.body();
  VERBATIM_CHECK(out.body.size() <= kBodyMax);
  VERBATIM_CHECK(out.names.size() <= kHeaderMax);
  // Who writes these lines into another head must not end them early.
  VERBATIM_CHECK(out.target.find_first_of("\r\n") == std::string::npos);
  for (const Field& field : parser.head().fields.all()) {
    VERBATIM_CHECK(field.name.find_first_of("\r\n: ") == std::string::npos);
    VERBATIM_CHECK(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
  return out;
}

class Collected final : public ResponseReader {
 public:
  void on_head(ResponseHead given, std::optional<std::uint64_t> length, bool to_eof) override {
    VERBATIM_CHECK(!head);
    head = true;
    names = names_of(given.fields);
    VERBATIM_CHECK(!length || !to_eof);
    bytes_expected = length;
  }
  void on_body(std::string_view bytes) override {
    VERBATIM_CHECK(head);
    body += bytes;
  }
  bool head = false;
  std::string names, body;
  std::optional<std::uint64_t> bytes_expected;
};

Read read_response(std::string_view bytes, std::uint8_t choice, bool head_only, bool upgrade) {
  Collected collected;
  ResponseParser parser(head_only, kHeaderMax, collected, upgrade);
  Read out;
  out.used = feed(parser, bytes, choice, [&] { return parser.done() || parser.failed(); });
  out.failed = parser.failed();
  if (!out.failed && !parser.done()) out.failed = !parser.put_eof();
  out.head = parser.head_done();
  out.done = parser.done();
  if (out.failed) return out;
  out.status = parser.status();
  out.keep_alive = parser.keep_alive();
  out.names = std::move(collected.names);
  out.body = std::move(collected.body);
  if (collected.bytes_expected && !head_only && collected.head && out.done && out.status != 304) {
    VERBATIM_CHECK(out.body.size() == *collected.bytes_expected);
  }
  if (head_only) VERBATIM_CHECK(out.body.empty());
  return out;
}

void run(std::string_view input) {
  const std::uint8_t choice = take_choice(input);
  const std::uint8_t kind = take_choice(input);
  if ((kind & 1) == 0) {
    const Read a = read_request(input, 255), b = read_request(input, choice);
    // When a fault is told, and which of two, may depend on what had come; not what is read without one.
    if (is_good(a) || is_good(b)) VERBATIM_CHECK(a == b);
  } else {
    const bool head_only = (kind & 2) != 0, upgrade = (kind & 4) != 0;
    const Read a = read_response(input, 255, head_only, upgrade);
    const Read b = read_response(input, choice, head_only, upgrade);
    if (is_good(a) || is_good(b)) VERBATIM_CHECK(a == b);
  }
}

std::vector<std::string> seeds() {
  const std::string request(1, '\0'), answer("\1"), head("\3"), upgrade("\5");
  return {
      "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + request + '\3',
      "POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;x=y\r\nhello\r\n0\r\nTrailer: t\r\n\r\nGET / HTTP/1.1\r\n" +
          request + '\7',
      "\r\n\r\nGET http://h:8/x?y HTTP/1.0\r\n\r\n" + request + '\1',
      "GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n" + request + '\1',
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + answer + '\5',
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n" + answer +
          '\2',
      "HTTP/1.0 200 OK\r\n\r\nto the end" + answer + '\2',
      "HTTP/1.1 204 No Content\r\n\r\n" + answer + '\2',
      "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + head + '\2',
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x01" + upgrade + '\2',
  };
}

const Registration kHttp({"http",
                          run,
                          seeds,
                          {"Content-Length: ", "Transfer-Encoding: chunked", "\r\n\r\n", "\r\n",
                           "\n", ", ", "0\r\n\r\n", "HTTP/1.1", "Host: b\r\n", "identity",
                           "FFFFFFFFFFFFFFFF\r\n", "-1", "+5", "Connection: close", "\r\n folded",
                           "http://", "PRI * HTTP/2.0"}});

}  // namespace

}  // namespace verbatim::fuzz
