#pragma once
// A time-stamping authority of the tests' own: a CA, a certificate for stamps, and answers at whatever time.

#include "schema/bytes.hpp"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/ts.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace verbatim::audit::test {

class LocalTsa {
 public:
  /// Its certificates are valid for a day before and after `now_s`.
  LocalTsa(const char* name, std::int64_t now_s) : now_s_(now_s), name_(name) {
    ca_key_.reset(EVP_EC_gen("P-256"));
    key_.reset(EVP_EC_gen("P-256"));
    ca_ = certify("ca", *ca_key_, nullptr, "critical,CA:TRUE", "");
    certificate_ = certify("stamps", *key_, ca_.get(), "", "critical,timeStamping");
    // The same key, name and number, but not for stamps.
    other_use_ = certify("stamps", *key_, ca_.get(), "", "serverAuth");
  }

  [[nodiscard]] std::string ca_pem() const {
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), BIO_free_all);
    PEM_write_bio_X509(out.get(), ca_.get());
    return bytes_of(out.get());
  }

  /// The answer to a query, with this time.
  [[nodiscard]] std::string answer(std::string_view query, std::int64_t time_s,
                                   bool other_use = false) {
    time_s_ = time_s;
    const std::unique_ptr<TS_RESP_CTX, decltype(&TS_RESP_CTX_free)> context(TS_RESP_CTX_new(),
                                                                            TS_RESP_CTX_free);
    const std::unique_ptr<ASN1_OBJECT, decltype(&ASN1_OBJECT_free)> policy(
        OBJ_txt2obj("1.3.6.1.4.1.99999.1", 1), ASN1_OBJECT_free);
    TS_RESP_CTX_set_signer_cert(context.get(), certificate_.get());
    TS_RESP_CTX_set_signer_key(context.get(), key_.get());
    TS_RESP_CTX_set_signer_digest(context.get(), EVP_sha256());
    TS_RESP_CTX_set_ess_cert_id_digest(context.get(), EVP_sha256());
    TS_RESP_CTX_set_def_policy(context.get(), policy.get());
    TS_RESP_CTX_add_md(context.get(), EVP_sha256());
    TS_RESP_CTX_set_time_cb(context.get(), tell_time, this);
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> in(
        BIO_new_mem_buf(query.data(), static_cast<int>(query.size())), BIO_free_all);
    const std::unique_ptr<TS_RESP, decltype(&TS_RESP_free)> response(
        TS_RESP_create_response(context.get(), in.get()), TS_RESP_free);
    ERR_clear_error();
    if (!response) return "";
    if (other_use) swap_certificate(TS_RESP_get_token(response.get()));
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), BIO_free_all);
    i2d_TS_RESP_bio(out.get(), response.get());
    return bytes_of(out.get());
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static int tell_time(TS_RESP_CTX*, void* self, long* seconds, long* microseconds) {
    *seconds = static_cast<long>(static_cast<LocalTsa*>(self)->time_s_);
    *microseconds = 0;
    return 1;
  }

  static std::string bytes_of(BIO* bio) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(bio, &bytes);
    return {bytes, static_cast<std::size_t>(size)};
  }

  Certificate certify(const char* role, EVP_PKEY& key, X509* issuer, const char* constraints,
                      const char* use) {
    Certificate made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), issuer == nullptr ? 1 : 2);
    X509_NAME* const subject = X509_get_subject_name(made.get());
    const std::string common = name_ + " " + role;
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1, 0);
    X509_set_issuer_name(made.get(), issuer == nullptr ? subject : X509_get_subject_name(issuer));
    ASN1_TIME_set(X509_getm_notBefore(made.get()), static_cast<time_t>(now_s_ - 86'400));
    ASN1_TIME_set(X509_getm_notAfter(made.get()), static_cast<time_t>(now_s_ + 86'400));
    X509_set_pubkey(made.get(), &key);
    for (const auto& [nid, text] :
         {std::pair(NID_basic_constraints, constraints), std::pair(NID_ext_key_usage, use)}) {
      if (*text == '\0') continue;
      X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, text);
      X509_add_ext(made.get(), extension, -1);
      X509_EXTENSION_free(extension);
    }
    EXPECT_GT(X509_sign(made.get(), ca_key_.get(), EVP_sha256()), 0);
    return made;
  }

  void swap_certificate(PKCS7* token) const {
    X509_free(sk_X509_pop(token->d.sign->cert));
    X509_up_ref(other_use_.get());
    sk_X509_push(token->d.sign->cert, other_use_.get());
  }

  std::int64_t now_s_, time_s_ = 0;
  std::string name_;
  Key ca_key_, key_;
  Certificate ca_, certificate_, other_use_;
};

}  // namespace verbatim::audit::test
