#include "gateway/http.hpp"

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

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  using Base = http::basic_parser<true>;
  using BodyLimit = RequestParser::BodyLimit;

  explicit Impl(BodyLimit body_bytes_max) : body_bytes_max_(std::move(body_bytes_max)) {}

  RequestHead head;
  std::string body;
  HttpFault fault = HttpFault::none;

  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    head.method = std_view(method);
    head.target = std_view(target);
    head.version = version;
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field name, string_view name_text, string_view value,
                     error_code& error) override {
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
    if (name == http::field::host && ++hosts_ > 1) refuse(HttpFault::malformed, error);
    head.fields.add(std_view(name_text), std_view(value));
  }
  void on_header_impl(error_code& error) override {
    // A chunked HTTP/1.0 request has no agreed end (RFC 9112 section 6.1).
    if (head.version < 11 && codings_ > 0) refuse(HttpFault::framing_conflict, error);
    // RFC 9112 section 3.2.
    if (head.version >= 11 && hosts_ == 0) refuse(HttpFault::malformed, error);
    if (fault != HttpFault::none) return;
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
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t size, string_view, error_code& error) override {
    if (size > left_) return refuse(HttpFault::body_too_large, error);
    left_ -= size;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}

  void refuse(HttpFault what, error_code& error) {
    fault = what;
    error = http::error::bad_field;
  }

 private:
  BodyLimit body_bytes_max_;
  std::uint64_t left_ = 0;  // of what the body's chunks may still bring
  int lengths_ = 0, codings_ = 0, hosts_ = 0;
  bool body_begun_ = false;
};

RequestParser::RequestParser(std::uint32_t header_bytes_max, BodyLimit body_bytes_max)
    : impl_(std::make_unique<Impl>(std::move(body_bytes_max))) {
  impl_->eager(true);
  impl_->header_limit(header_bytes_max);
  impl_->body_limit(boost::none);
}

RequestParser::RequestParser(std::uint32_t header_bytes_max, std::uint64_t body_bytes_max)
    : RequestParser(header_bytes_max,
                    [body_bytes_max](const RequestHead&) { return body_bytes_max; }) {}

RequestParser::~RequestParser() = default;

std::size_t RequestParser::put(std::string_view bytes) {
  error_code error;
  const std::size_t used = impl_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (!error || error == http::error::need_more) return used;
  if (impl_->fault == HttpFault::none) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      impl_->fault = HttpFault::header_too_large;
    } else if (error == http::error::body_limit) {
      impl_->fault = HttpFault::body_too_large;
    } else if (error == http::error::bad_content_length ||
               error == http::error::bad_transfer_encoding ||
               error == http::error::multiple_content_length) {
      impl_->fault = HttpFault::framing_conflict;
    } else {
      impl_->fault = HttpFault::malformed;
    }
  }
  return used;
}

HttpFault RequestParser::fault() const { return impl_->fault; }
bool RequestParser::head_done() const { return impl_->is_header_done(); }
bool RequestParser::done() const { return impl_->is_done(); }
bool RequestParser::keep_alive() const { return impl_->keep_alive(); }
RequestHead& RequestParser::head() { return impl_->head; }
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
    const auto length = content_length();
    if (status / 100 == 1 && status != 101) return;  // interim: not the answer
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
