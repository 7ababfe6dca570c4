#include "audit/timestamp_token.hpp"

#include "schema/clock.hpp"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/ts.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <utility>

namespace verbatim::audit {

namespace {

template <auto Free>
struct Freeing {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freeing<BIO_free_all>>;
using Request = std::unique_ptr<TS_REQ, Freeing<TS_REQ_free>>;
using Response = std::unique_ptr<TS_RESP, Freeing<TS_RESP_free>>;
using Imprint = std::unique_ptr<TS_MSG_IMPRINT, Freeing<TS_MSG_IMPRINT_free>>;
using Algorithm = std::unique_ptr<X509_ALGOR, Freeing<X509_ALGOR_free>>;
using Integer = std::unique_ptr<ASN1_INTEGER, Freeing<ASN1_INTEGER_free>>;
using Signed = std::unique_ptr<PKCS7, Freeing<PKCS7_free>>;
using Info = std::unique_ptr<TS_TST_INFO, Freeing<TS_TST_INFO_free>>;
using Certificate = std::unique_ptr<X509, Freeing<X509_free>>;

void free_shallow(STACK_OF(X509) * certificates) { sk_X509_free(certificates); }
void free_deep(STACK_OF(X509_INFO) * infos) { sk_X509_INFO_pop_free(infos, X509_INFO_free); }

constexpr std::size_t kSubjectBytesMax = 512;

Error malformed(std::string what) { return Error{Errc::invalid_input, std::move(what), "", ""}; }

/// What OpenSSL has to say of its last failure; and nothing is left in its queue for somebody else.
std::string reason() {
  const char* data = nullptr;
  int flags = 0;
  const unsigned long code = ERR_peek_last_error_all(nullptr, nullptr, nullptr, &data, &flags);
  const char* text = ERR_reason_error_string(code);
  std::string said = text != nullptr ? text : "no reason given";
  // "Verify error:certificate has expired"
  if ((flags & ERR_TXT_STRING) != 0 && data != nullptr && *data != '\0') said = data;
  ERR_clear_error();
  const std::size_t colon = said.find("Verify error:");
  return colon == std::string::npos ? said : said.substr(colon + 13);
}

/// Reads one DER value that takes all of the bytes.
template <class Object>
Object read_der(std::string_view der, auto&& read) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const auto* const end = at + der.size();
  Object object(read(nullptr, &at, static_cast<long>(der.size())));
  if (at != end) object.reset();
  ERR_clear_error();
  return object;
}

std::string write_der(auto* object, auto&& write) {
  unsigned char* raw = nullptr;
  const int size = write(object, &raw);
  VERBATIM_CHECK(size > 0);
  std::string der(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size));
  OPENSSL_free(raw);
  return der;
}

Request read_query(std::string_view der) {
  return der.size() > kTimestampAnswerBytesMax ? nullptr : read_der<Request>(der, d2i_TS_REQ);
}

Result<Digest> digest_of(TS_MSG_IMPRINT* imprint) {
  const ASN1_OBJECT* algorithm = nullptr;
  X509_ALGOR_get0(&algorithm, nullptr, nullptr, TS_MSG_IMPRINT_get_algo(imprint));
  const ASN1_OCTET_STRING* const bytes = TS_MSG_IMPRINT_get_msg(imprint);
  Digest digest;
  if (OBJ_obj2nid(algorithm) != NID_sha256 || ASN1_STRING_length(bytes) != 32) {
    return malformed("the time stamp is of another hash than SHA-256");
  }
  std::copy_n(ASN1_STRING_get0_data(bytes), digest.bytes.size(), digest.bytes.begin());
  return digest;
}

/// genTime: YYYYMMDDhhmmss[.fff]Z (RFC 3161 section 2.4.2).
Result<std::int64_t> time_of(const ASN1_GENERALIZEDTIME* time) {
  const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(time)),
                              static_cast<std::size_t>(ASN1_STRING_length(time)));
  const auto part = [&](std::size_t from, std::size_t size) {
    return std::string(text.substr(std::min(from, text.size()), size));
  };
  const auto parsed =
      parse_rfc3339(part(0, 4) + "-" + part(4, 2) + "-" + part(6, 2) + "T" + part(8, 2) + ":" +
                    part(10, 2) + ":" + part(12, 2) + part(14, std::string::npos));
  if (!parsed) return malformed("the time stamp holds no time");
  return parsed;
}

std::string subject_of(const X509* certificate) {
  const Bio out(BIO_new(BIO_s_mem()));
  VERBATIM_CHECK(out != nullptr);
  X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  std::string subject(text, static_cast<std::size_t>(std::max(size, 0L)));
  if (subject.size() > kSubjectBytesMax) subject.resize(kSubjectBytesMax);
  // RFC 2253's escapes leave nothing else; a certificate may hold anything.
  for (char& c : subject) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return subject;
}

/// The certificate inside a token whose key signed it.
Result<Certificate> signer_of(PKCS7* token) {
  const auto* infos = PKCS7_get_signer_info(token);
  if (infos == nullptr || sk_PKCS7_SIGNER_INFO_num(infos) != 1 || PKCS7_get_detached(token) != 0) {
    return malformed("the token is not signed by one authority");
  }
  const std::unique_ptr<STACK_OF(X509), Freeing<free_shallow>> signers(
      PKCS7_get0_signers(token, nullptr, 0));
  if (!signers || sk_X509_num(signers.get()) != 1) {
    ERR_clear_error();
    return malformed("the token does not hold the certificate that signed it");
  }
  // No chain yet: only that these bytes are what the certificate's key signed.
  if (PKCS7_verify(token, nullptr, nullptr, nullptr, nullptr, PKCS7_NOVERIFY | PKCS7_BINARY) != 1) {
    return Error{Errc::tampered, "the token's signature is wrong: " + reason(), "", ""};
  }
  X509* const signer = sk_X509_value(signers.get(), 0);
  X509_up_ref(signer);
  return Certificate(signer);
}

Error other_than_asked(const char* what) {
  return Error{Errc::tampered,
               std::string("the time stamp has another ") + what + " than was asked", "",
               "it belongs to another question, or the authority is not to be trusted"};
}

}  // namespace

std::string make_timestamp_query(const Digest& imprint) {
  const Request request(TS_REQ_new());
  const Imprint message(TS_MSG_IMPRINT_new());
  const Algorithm algorithm(X509_ALGOR_new());
  const Integer nonce(ASN1_INTEGER_new());
  VERBATIM_CHECK(request && message && algorithm && nonce);
  std::array<std::uint8_t, 8> random;
  fill_random(random);
  std::uint64_t number = 0;
  for (const std::uint8_t byte : random) number = number << 8 | byte;
  X509_ALGOR_set0(algorithm.get(), OBJ_nid2obj(NID_sha256), V_ASN1_NULL, nullptr);
  Digest digest = imprint;
  const bool made = TS_MSG_IMPRINT_set_algo(message.get(), algorithm.get()) == 1 &&
                    TS_MSG_IMPRINT_set_msg(message.get(), digest.bytes.data(), 32) == 1 &&
                    ASN1_INTEGER_set_uint64(nonce.get(), number) == 1 &&
                    TS_REQ_set_version(request.get(), 1) == 1 &&
                    TS_REQ_set_msg_imprint(request.get(), message.get()) == 1 &&
                    TS_REQ_set_nonce(request.get(), nonce.get()) == 1 &&
                    TS_REQ_set_cert_req(request.get(), 1) == 1;
  VERBATIM_CHECK(made);
  return write_der(request.get(), i2d_TS_REQ);
}

Result<Digest> timestamp_query_imprint(std::string_view query) {
  const Request request = read_query(query);
  if (!request) return malformed("not a time-stamp query");
  return digest_of(TS_REQ_get_msg_imprint(request.get()));
}

Result<TimestampToken> open_timestamp_token(std::string_view der) {
  if (der.size() > kTimestampTokenBytesMax) {
    return malformed("the token has more than " + std::to_string(kTimestampTokenBytesMax) +
                     " bytes");
  }
  const Signed token = read_der<Signed>(der, d2i_PKCS7);
  const bool is_signed = token && PKCS7_type_is_signed(token.get());
  const Info info(is_signed ? PKCS7_to_TS_TST_INFO(token.get()) : nullptr);
  ERR_clear_error();
  if (!info || TS_TST_INFO_get_version(info.get()) != 1) return malformed("not a time-stamp token");
  const auto imprint = digest_of(TS_TST_INFO_get_msg_imprint(info.get()));
  if (!imprint) return imprint.error();
  const auto time = time_of(TS_TST_INFO_get_time(info.get()));
  if (!time) return time.error();
  const auto signer = signer_of(token.get());
  if (!signer) return signer.error();
  return TimestampToken{std::string(der), *imprint, *time, subject_of(signer->get())};
}

Result<TimestampToken> open_timestamp_answer(std::string_view answer, std::string_view query) {
  const Request asked = read_query(query);
  if (!asked) return malformed("not a time-stamp query");
  const Response response =
      answer.size() > kTimestampAnswerBytesMax ? nullptr : read_der<Response>(answer, d2i_TS_RESP);
  if (!response) {
    return Error{Errc::upstream_failed, "the answer is no time-stamp response", "", ""};
  }
  TS_STATUS_INFO* const status = TS_RESP_get_status_info(response.get());
  const long code = ASN1_INTEGER_get(TS_STATUS_INFO_get0_status(status));
  PKCS7* const signed_data = TS_RESP_get_token(response.get());
  if ((code != TS_STATUS_GRANTED && code != TS_STATUS_GRANTED_WITH_MODS) ||
      signed_data == nullptr) {
    return Error{Errc::upstream_failed,
                 "the authority refuses to stamp, with status " + std::to_string(code), "", ""};
  }
  auto token = open_timestamp_token(write_der(signed_data, i2d_PKCS7));
  if (!token) return token;
  const auto imprint = digest_of(TS_REQ_get_msg_imprint(asked.get()));
  if (!imprint) return imprint.error();
  if (token->imprint != *imprint) return other_than_asked("imprint");
  const ASN1_INTEGER* const nonce = TS_REQ_get_nonce(asked.get());
  const ASN1_INTEGER* const given = TS_TST_INFO_get_nonce(TS_RESP_get_tst_info(response.get()));
  if (nonce != nullptr && (given == nullptr || ASN1_INTEGER_cmp(nonce, given) != 0)) {
    return other_than_asked("nonce");
  }
  return token;
}

Result<TimestampTrust> TimestampTrust::from_pem(std::string_view pem) {
  if (pem.empty()) return malformed("there is no certificate in it");
  const Bio in(BIO_new_mem_buf(
      pem.data(), static_cast<int>(std::min<std::size_t>(pem.size(), std::size_t{1} << 30))));
  const std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  VERBATIM_CHECK(in != nullptr && store != nullptr);
  const std::unique_ptr<STACK_OF(X509_INFO), Freeing<free_deep>> infos(
      PEM_X509_INFO_read_bio(in.get(), nullptr, nullptr, nullptr));
  int added = 0;
  for (int i = 0; infos && i < sk_X509_INFO_num(infos.get()); ++i) {
    const X509_INFO* const info = sk_X509_INFO_value(infos.get(), i);
    if (info->x509 != nullptr && X509_STORE_add_cert(store.get(), info->x509) == 1) ++added;
  }
  ERR_clear_error();
  if (added == 0) return malformed("there is no certificate in it");
  return TimestampTrust(store);
}

Result<void> TimestampTrust::check(const TimestampToken& token) const {
  const Signed data = read_der<Signed>(token.der, d2i_PKCS7);
  if (!data) return malformed("not a time-stamp token");
  // A certificate need only have been valid when it signed: stamps outlive certificates.
  X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(store_.get()),
                             static_cast<time_t>(token.time_us / 1'000'000));
  if (TS_RESP_verify_signature(data.get(), nullptr, store_.get(), nullptr) == 1) {
    ERR_clear_error();
    return {};
  }
  return Error{Errc::tampered, "the time stamp is not by a trusted authority: " + reason(),
               token.tsa, ""};
}

}  // namespace verbatim::audit
