#include "gateway/http.hpp"

#include "gateway/request_target.hpp"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace verbatim::gateway {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

namespace {

std::string_view std_view(string_view text) { return {text.data(), text.size()}; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// One length, written in one way. Beast also takes lists of equal lengths ("2, 2"), which would go on as they are to
/// a reader who may see something else in them.
bool is_length(std::string_view value) {
  return !value.empty() &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Control characters, of which Beast lets some stand in the quoted text of a chunk extension.
bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  });
}

/// Beast puts one blank in the place of a folded line's end, which others do not (RFC 9112 section 5.2). True if a value
/// is not the text that follows its name: both are in the bytes that came, or the value is a copy.
bool is_folded(std::string_view name, std::string_view value) {
  const char* at = name.data() + name.size() + 1;  // Beast has read the line to its end
  while (*at == ' ' || *at == '\t') ++at;
  return at != value.data();
}

/// True if a line ends with the name of a version that is not spoken here: "PRI * HTTP/2.0".
bool ends_with_other_version(std::string_view line) {
  constexpr std::string_view kName = "HTTP/";
  const std::string_view last = line.substr(std::min(line.rfind(' ') + 1, line.size()));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return last.size() == kName.size() + 3 && last.starts_with(kName) && is_digit(last[5]) &&
         last[6] == '.' && is_digit(last[7]) && last != "HTTP/1.0" && last != "HTTP/1.1";
}

// Of what a client may send that says nothing.
constexpr int kEmptyLinesMax = 4;
constexpr std::uint64_t kChunkLineBytes = 32;  // "\r\n", 16 digits, "\r\n", and some to spare

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view take_list_item(std::string_view& list) {
  std::string_view item = list.substr(0, list.find(','));
  list.remove_prefix(std::min(item.size() + 1, list.size()));
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!item.empty() && is_blank(item.front())) item.remove_prefix(1);
  while (!item.empty() && is_blank(item.back())) item.remove_suffix(1);
  return item;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (same_word(take_list_item(list), word)) return true;
  }
  return false;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string query_parameter(std::string_view target, std::string_view name) {
  std::string_view query = target.substr(std::min(target.find('?'), target.size()));
  while (!query.empty()) {
    query.remove_prefix(1);  // '?' or '&'
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(parameter.size());
    const std::size_t equals = std::min(parameter.find('='), parameter.size());
    if (percent_decoded(parameter.substr(0, equals)) == name) {
      return percent_decoded(parameter.substr(std::min(equals + 1, parameter.size())));
    }
  }
  return "";
}

std::string chunk_prefix(std::size_t bytes) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes, 16).ptr;
  return std::string(digits.data(), end).append("\r\n");
}

const std::string* Fields::find(std::string_view name) const {
  for (const Field& field : all_) {
    if (same_word(field.name, name)) return &field.value;
  }
  return nullptr;
}

std::string_view Fields::get(std::string_view name) const {
  const std::string* value = find(name);
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

void Fields::remove(std::string_view name) {
  std::erase_if(all_, [&](const Field& field) { return same_word(field.name, name); });
}

// ---- requests

HttpRefusal refusal_of(HttpFault fault) {
  switch (fault) {
    case HttpFault::framing_conflict:
      return {400, "framing_conflict",
              "the length of the request's body is told twice, or in two ways"};
    case HttpFault::header_too_large:
      return {431, "header_too_large", "the request's head, or what frames its body, is too large"};
    case HttpFault::body_too_large:
      return {413, "body_too_large", "the request's body is too large"};
    case HttpFault::unsupported_coding:
      return {501, "unsupported_coding", "only the chunked transfer coding is known here"};
    case HttpFault::unsupported_version:
      return {505, "unsupported_version", "only HTTP/1.1 and HTTP/1.0 are spoken here"};
    case HttpFault::malformed:
    case HttpFault::none:
      break;
  }
  return {400, "malformed", "the request is not valid HTTP/1.1"};
}

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  using Base = http::basic_parser<true>;
  using BodyLimit = RequestParser::BodyLimit;

  Impl(std::uint32_t header_bytes_max, BodyLimit body_bytes_max)
      : header_bytes_max_(header_bytes_max), body_bytes_max_(std::move(body_bytes_max)) {}

  RequestHead head;
  std::string body;
  HttpFault fault = HttpFault::none;

  /// How many bytes of empty lines to pass over.
  std::size_t skip_empty_lines(std::string_view bytes) {
    std::size_t skipped = 0;
    while (empty_lines_ < kEmptyLinesMax && bytes.substr(skipped).starts_with("\r\n")) {
      skipped += 2;
      ++empty_lines_;
    }
    return skipped;
  }

  /// Before and after each piece. What is said between and behind a body's chunks is not data, which has a limit of its own;
  /// it is measured in offsets, so that it makes no difference in which pieces it comes.
  void begin_piece(std::string_view bytes) { piece_ = bytes.data(); }
  void end_piece(std::size_t used, std::size_t waiting) {
    consumed_ += used;
    if (is_framed_by_too_much(consumed_ + waiting)) fault = HttpFault::header_too_large;
  }

  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code& error) override {
    head.method = std_view(method);
    head.target = std_view(target);
    head.version = version;
    // Methods are told apart by case (RFC 9110 section 9.1), which not every server knows: "post" would be a POST to some.
    const bool small = std::any_of(head.method.begin(), head.method.end(),
                                   [](char c) { return c >= 'a' && c <= 'z'; });
    if (small) refuse(HttpFault::malformed, error);
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field name, string_view name_text, string_view value,
                     error_code& error) override {
    if (is_folded(std_view(name_text), std_view(value))) {
      return refuse(HttpFault::malformed, error);
    }
    if (body_begun_) return;  // trailers: hop-by-hop, dropped
    if (name == http::field::content_length) {
      if (++lengths_ + codings_ > 1 || !is_length(std_view(value))) {
        refuse(HttpFault::framing_conflict, error);
      }
    } else if (name == http::field::transfer_encoding) {
      if (++codings_ + lengths_ > 1) {
        refuse(HttpFault::framing_conflict, error);
      } else if (!same_word(std_view(value), "chunked")) {
        refuse(HttpFault::unsupported_coding, error);
      }
    }
    if (name == http::field::host &&
        (++hosts_ > 1 || !(value.empty() || host_of(std_view(value))))) {
      return refuse(HttpFault::malformed, error);
    }
    head.fields.add(std_view(name_text), std_view(value));
  }
  void on_header_impl(error_code& error) override {
    // A chunked HTTP/1.0 request has no agreed end (RFC 9112 section 6.1).
    if (head.version < 11 && codings_ > 0) refuse(HttpFault::framing_conflict, error);
    // RFC 9112 section 3.2.
    if (head.version >= 11 && hosts_ == 0) refuse(HttpFault::malformed, error);
    if (fault != HttpFault::none) return;
    to_origin_form(head);
    left_ = body_bytes_max_(head);
    // Before the client is told to continue.
    const auto length = content_length();
    if (length && *length > left_) refuse(HttpFault::body_too_large, error);
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    body_begun_ = true;
    // Not all of a length that is only claimed.
    if (length) body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(*length, 1u << 20)));
  }
  std::size_t on_body_impl(string_view bytes, error_code&) override {
    body_bytes_ += bytes.size();
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t size, string_view extension, error_code& error) override {
    if (has_control(std_view(extension))) return refuse(HttpFault::malformed, error);
    if (size > left_) return refuse(HttpFault::body_too_large, error);
    const auto end = static_cast<std::uint64_t>(extension.data() + extension.size() - piece_);
    if (is_framed_by_too_much(consumed_ + end)) return refuse(HttpFault::header_too_large, error);
    if (size == 0) return;  // trailers follow, and count with it
    framing_ = consumed_ + end - body_bytes_;
    left_ -= size;
    ++chunks_;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code& error) override {
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(error_code&) override {}

  void refuse(HttpFault what, error_code& error) {
    fault = what;
    error = http::error::bad_field;
  }

 private:
  /// True if what is no data before this offset is too long. Head and framing may have a head's length each: in one
  /// stretch, and altogether beside what the lines of so many chunks need.
  [[nodiscard]] bool is_framed_by_too_much(std::uint64_t end) const {
    const std::uint64_t bytes_max = 2 * std::uint64_t{header_bytes_max_};
    const std::uint64_t framing = end - body_bytes_;
    return framing - framing_ > bytes_max || framing > bytes_max + kChunkLineBytes * chunks_;
  }

  std::uint32_t header_bytes_max_;
  BodyLimit body_bytes_max_;
  std::uint64_t left_ = 0;  // of what the body's chunks may still bring
  const char* piece_ = nullptr;
  std::uint64_t consumed_ = 0;    // before this piece
  std::uint64_t body_bytes_ = 0;  // of all that, data
  std::uint64_t chunks_ = 0;
  std::uint64_t framing_ = 0;  // to the end of the last chunk's line, head included
  int empty_lines_ = 0;
  int lengths_ = 0, codings_ = 0, hosts_ = 0;
  bool body_begun_ = false;
};

RequestParser::RequestParser(std::uint32_t header_bytes_max, BodyLimit body_bytes_max)
    : impl_(std::make_unique<Impl>(header_bytes_max, std::move(body_bytes_max))) {
  impl_->eager(true);
  impl_->header_limit(header_bytes_max);
  impl_->body_limit(boost::none);
}

RequestParser::RequestParser(std::uint32_t header_bytes_max, std::uint64_t body_bytes_max)
    : RequestParser(header_bytes_max,
                    [body_bytes_max](const RequestHead&) { return body_bytes_max; }) {}

RequestParser::~RequestParser() = default;

std::size_t RequestParser::put(std::string_view bytes) {
  if (!begun()) {
    const std::size_t skipped = impl_->skip_empty_lines(bytes);
    bytes.remove_prefix(skipped);
    if (skipped > 0 || bytes == "\r") return skipped;
  }
  error_code error;
  impl_->begin_piece(bytes);
  const std::size_t used = impl_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (!error || error == http::error::need_more) {
    impl_->end_piece(used, done() ? 0 : bytes.size() - used);
    return used;
  }
  if (impl_->fault == HttpFault::none) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      impl_->fault = HttpFault::header_too_large;
    } else if (error == http::error::body_limit) {
      impl_->fault = HttpFault::body_too_large;
    } else if (error == http::error::bad_content_length ||
               error == http::error::bad_transfer_encoding ||
               error == http::error::multiple_content_length) {
      impl_->fault = HttpFault::framing_conflict;
    } else if (error == http::error::bad_version &&
               ends_with_other_version(bytes.substr(0, bytes.find("\r\n")))) {
      impl_->fault = HttpFault::unsupported_version;  // of its line nothing has been consumed
    } else {
      impl_->fault = HttpFault::malformed;
    }
  }
  return used;
}

HttpFault RequestParser::fault() const { return impl_->fault; }
bool RequestParser::begun() const { return impl_->got_some(); }
bool RequestParser::head_done() const { return impl_->is_header_done(); }
bool RequestParser::done() const { return impl_->is_done(); }
bool RequestParser::keep_alive() const { return impl_->keep_alive(); }
RequestHead& RequestParser::head() { return impl_->head; }
const RequestHead& RequestParser::head() const { return impl_->head; }
std::string& RequestParser::body() { return impl_->body; }

bool RequestParser::wants_continue() const {
  return impl_->is_header_done() && !impl_->is_done() && impl_->body.empty() &&
         impl_->head.version >= 11 && has_word(impl_->head.fields.get("expect"), "100-continue");
}

// ---- responses

class ResponseParser::Impl final : public http::basic_parser<false> {
 public:
  Impl(ResponseReader& reader, bool upgrade) : reader_(reader), upgrade_(upgrade) {}

  bool failed = false;
  int status = 0;

  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view reason, int version, error_code& error) override {
    // Below 100 nothing is defined; 101 answers an Upgrade.
    if (code < 100 || (code == 101 && !upgrade_)) error = http::error::bad_status;
    status = code;
    head_.status = code;
    head_.reason = std_view(reason);
    head_.version = version;
  }
  void on_field_impl(http::field name, string_view name_text, string_view value,
                     error_code& error) override {
    if (head_given_) return;  // trailers: hop-by-hop, dropped
    if (name == http::field::content_length && (++lengths_ > 1 || !is_length(std_view(value)))) {
      error = http::error::bad_content_length;
    }
    // Any other coding was not asked for (no TE is sent), and taking it off is not ours: the client would get bytes
    // that nobody can name.
    if (name == http::field::transfer_encoding && !same_word(std_view(value), "chunked") &&
        !same_word(std_view(value), "identity")) {
      error = http::error::bad_transfer_encoding;
    }
    head_.fields.add(std_view(name_text), std_view(value));
  }
  void on_header_impl(error_code&) override {
    head_given_ = true;
    if (status / 100 == 1 && status != 101) return;  // interim: not the answer
    // These have no body, and may tell no length (RFC 9110 section 8.6): who reads on would wait for one.
    const bool no_length = status == 101 || status == 204;
    if (no_length) head_.fields.remove("content-length");
    const auto length = no_length ? boost::none : content_length();
    reader_.on_head(std::move(head_), length ? std::optional<std::uint64_t>(*length) : std::nullopt,
                    need_eof());
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view bytes, error_code&) override {
    reader_.on_body(std_view(bytes));
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override {
    if (!bytes.empty()) reader_.on_body(std_view(bytes));
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}

 private:
  ResponseReader& reader_;
  bool upgrade_;
  ResponseHead head_;
  int lengths_ = 0;
  bool head_given_ = false;
};

ResponseParser::ResponseParser(bool head_only, std::uint32_t header_bytes_max,
                               ResponseReader& reader, bool upgrade)
    : impl_(std::make_unique<Impl>(reader, upgrade)) {
  impl_->eager(true);
  impl_->skip(head_only);
  impl_->header_limit(header_bytes_max);
  impl_->body_limit(boost::none);
}

ResponseParser::~ResponseParser() = default;

std::size_t ResponseParser::put(std::string_view bytes) {
  error_code error;
  const std::size_t used = impl_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error && error != http::error::need_more) impl_->failed = true;
  return used;
}

bool ResponseParser::put_eof() {
  if (!impl_->got_some() || impl_->failed) return false;
  error_code error;
  impl_->put_eof(error);
  return !error;
}

bool ResponseParser::failed() const { return impl_->failed; }
bool ResponseParser::head_done() const { return impl_->is_header_done(); }
bool ResponseParser::done() const { return impl_->is_done(); }
bool ResponseParser::keep_alive() const { return impl_->keep_alive(); }
int ResponseParser::status() const { return impl_->status; }

}  // namespace verbatim::gateway
