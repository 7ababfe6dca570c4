#pragma once
// HTTP/1.1 messages (RFC 9112) as the gateway sees them: heads with the order and the case of their
// fields kept, and incremental parsers for both directions. The grammar is Beast's; its headers
// stay in http.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

struct Field {
  std::string name;
  std::string value;
};

/// Fields in the order received. Lookup is by name without regard to case.
class Fields {
 public:
  void add(std::string_view name, std::string_view value) {
    all_.push_back({std::string(name), std::string(value)});
  }
  /// The first value, or null.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  /// The first value, or "".
  [[nodiscard]] std::string_view get(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  void remove(std::string_view name);
  [[nodiscard]] const std::vector<Field>& all() const { return all_; }
  [[nodiscard]] std::vector<Field>& all() { return all_; }

 private:
  std::vector<Field> all_;
};

struct RequestHead {
  std::string method;
  std::string target;  ///< as to_origin_form() leaves it
  int version = 11;    ///< 10 or 11
  Fields fields;
};

struct ResponseHead {
  int status = 0;
  std::string reason;
  int version = 11;
  Fields fields;
};

/// ASCII, without regard to case.
[[nodiscard]] bool same_word(std::string_view a, std::string_view b);
/// Takes the first item off a list, without the blanks around it (RFC 9110 section 5.6.1).
[[nodiscard]] std::string_view take_list_item(std::string_view& list);
/// True if the comma-separated list holds the word, without regard to case.
[[nodiscard]] bool has_word(std::string_view list, std::string_view word);

/// With each %XX replaced by its byte; what is no such escape stays.
[[nodiscard]] std::string percent_decoded(std::string_view text);

/// The first value of a parameter in a target's query, decoded; "" if there is none.
[[nodiscard]] std::string query_parameter(std::string_view target, std::string_view name);

/// The line before a chunk of so many bytes: "1a2b\r\n".
[[nodiscard]] std::string chunk_prefix(std::size_t bytes);

/// What is wrong with a request, by what has to be done about it.
enum class HttpFault {
  none,
  malformed,  ///< 400; also HTTP/1.1 without Host or with two, folded lines, a method in small letters
  framing_conflict,  ///< 400: both Content-Length and Transfer-Encoding, one of them twice, or a list
  header_too_large,     ///< 431; also what stands between and behind a body's chunks
  body_too_large,       ///< 413
  unsupported_coding,   ///< 501: a transfer coding other than chunked
  unsupported_version,  ///< 505: neither HTTP/1.0 nor HTTP/1.1
};

/// What a client is told of a fault.
struct HttpRefusal {
  int http_status;
  std::string_view kind;
  std::string_view message;
};
[[nodiscard]] HttpRefusal refusal_of(HttpFault fault);

/// Reads one request. Feed it from a contiguous buffer; what it leaves unconsumed must come again,
/// with more behind it, or belongs to the next request. A few empty lines before it are passed over (RFC 9112 section 2.2).
class RequestParser {
 public:
  /// How long a body may be, known once its head is.
  using BodyLimit = std::function<std::uint64_t(const RequestHead&)>;
  RequestParser(std::uint32_t header_bytes_max, BodyLimit body_bytes_max);
  RequestParser(std::uint32_t header_bytes_max, std::uint64_t body_bytes_max);
  ~RequestParser();

  /// Returns how many bytes were consumed. After a fault nothing more may be put.
  std::size_t put(std::string_view bytes);
  [[nodiscard]] HttpFault fault() const;
  [[nodiscard]] bool begun() const;  ///< a byte of the request itself has come
  [[nodiscard]] bool head_done() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] bool keep_alive() const;  ///< what the request asks for; head_done() only
  /// The body is expected, none of it has come, and the client waits for "100 Continue".
  [[nodiscard]] bool wants_continue() const;
  [[nodiscard]] RequestHead& head();
  [[nodiscard]] const RequestHead& head() const;
  /// With the chunk coding removed. May be taken while more is coming.
  [[nodiscard]] std::string& body();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Who is given the pieces of a response.
class ResponseReader {
 public:
  virtual ~ResponseReader() = default;
  /// Not called for interim (1xx) heads. `length`: Content-Length. `to_eof`: the body ends with the
  /// connection.
  virtual void on_head(ResponseHead head, std::optional<std::uint64_t> length, bool to_eof) = 0;
  virtual void on_body(std::string_view bytes) = 0;
};

/// Reads one response. As RequestParser; 1xx responses are to be read with a parser of their own. Fails on what could be
/// read in two ways (lengths that are lists or come twice, a length beside chunks, a transfer coding other than
/// chunked), on a status below 100, and on 101 unless an Upgrade was asked for.
class ResponseParser {
 public:
  /// `head_only`: the answer to a HEAD request. `upgrade`: one was asked for; a 101 is then an answer, and what follows
  /// it is left unconsumed. `reader` must outlive the parser.
  ResponseParser(bool head_only, std::uint32_t header_bytes_max, ResponseReader& reader,
                 bool upgrade = false);
  ~ResponseParser();

  std::size_t put(std::string_view bytes);
  /// The connection has ended. True if that ends the response properly.
  bool put_eof();
  [[nodiscard]] bool failed() const;
  [[nodiscard]] bool head_done() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] int status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim::gateway
