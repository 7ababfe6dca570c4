#pragma once
// Time stamps by others (RFC 3161): a time-stamping authority (TSA) signs that it saw a digest at a time. By OpenSSL's TS_*.
//
// A query asks for a stamp of a SHA-256 value, with a nonce, and for the TSA's certificate. The answer holds a token, a CMS
// SignedData, which is all that has to be kept: `openssl ts -verify -token_in` takes it as it is.

#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct x509_store_st;

namespace verbatim::audit {

/// A token in base64 must fit into a leaf.
inline constexpr std::size_t kTimestampTokenBytesMax = 40'000;
inline constexpr std::size_t kTimestampAnswerBytesMax = 65'536;

/// DER of a query for this digest, with a random nonce of 64 bits.
[[nodiscard]] std::string make_timestamp_query(const Digest& imprint);
/// The digest that a query is about. `invalid_input`: not a query, or of another hash than SHA-256.
[[nodiscard]] Result<Digest> timestamp_query_imprint(std::string_view query);

/// A token, and what it says.
struct TimestampToken {
  std::string der;
  Digest imprint;
  std::int64_t time_us = 0;  ///< genTime, Unix
  std::string tsa;           ///< the signing certificate's subject (RFC 4514), ASCII: as it claims
};

/// Reads a token, and checks that the certificate inside it signed it. Whose certificate that is, TimestampTrust tells.
/// `invalid_input`: no token, one without its certificate or of another hash, or a large one. `tampered`: the signature
/// is not the certificate's.
[[nodiscard]] Result<TimestampToken> open_timestamp_token(std::string_view der);

/// The token in a TSA's answer. `upstream_failed`: the answer is no answer, or the TSA refused, and why. `tampered`: it is
/// about another digest, or has another nonce, than the query; else as open_timestamp_token().
[[nodiscard]] Result<TimestampToken> open_timestamp_answer(std::string_view answer,
                                                           std::string_view query);

/// The authorities that somebody trusts for time. Copies share their certificates. Not for several threads at once.
class TimestampTrust {
 public:
  /// Certificates in PEM: roots, and intermediate ones. `invalid_input` if there is none.
  [[nodiscard]] static Result<TimestampTrust> from_pem(std::string_view pem);
  /// `tampered`, saying why, unless the token's certificate leads to one of these, was valid at the token's time, and is
  /// for time stamps and nothing else.
  [[nodiscard]] Result<void> check(const TimestampToken& token) const;

 private:
  explicit TimestampTrust(std::shared_ptr<x509_store_st> store) : store_(std::move(store)) {}
  std::shared_ptr<x509_store_st> store_;
};

}  // namespace verbatim::audit
