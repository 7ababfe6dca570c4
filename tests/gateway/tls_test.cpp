// An upstream behind TLS: its certificate and its name are checked.

#include "gateway_fixture.hpp"
#include "tests/support/shared.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <fstream>

namespace verbatim::test {
namespace {

namespace net = boost::asio;
using testing::HasSubstr;

/// A key and a certificate for `name`, signed by itself: a CA of its own.
struct Certificate {
  explicit Certificate(const std::string& alt_name) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* x509 = X509_new();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_set_pubkey(x509, key);
    X509_NAME* subject = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(x509, subject);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alt_name.c_str());
    X509_add_ext(x509, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(x509, key, EVP_sha256());
    key_pem = pem([&](BIO* bio) {
      PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    });
    certificate_pem = pem([&](BIO* bio) { PEM_write_bio_X509(bio, x509); });
    X509_free(x509);
    EVP_PKEY_free(key);
  }
  template <class Write>
  static std::string pem(Write write) {
    BIO* bio = BIO_new(BIO_s_mem());
    write(bio);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string out(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return out;
  }
  std::string key_pem, certificate_pem;
};

class Tls : public GatewayTest {
 protected:
  /// An https upstream with this certificate; `trusted` tells whether the gateway is given its CA.
  Message ask_with(const std::string& alt_name, bool trusted) {
    const Certificate certificate(alt_name);
    net::ssl::context context(net::ssl::context::tls_server);
    context.use_certificate(net::buffer(certificate.certificate_pem), net::ssl::context::pem);
    context.use_private_key(net::buffer(certificate.key_pem), net::ssl::context::pem);
    upstream_ = std::make_unique<MockUpstream>([&](Wire& wire) { serve(wire, context); });
    add_upstream("mock", "https://127.0.0.1:" + std::to_string(upstream_->port()));
    if (trusted) {
      const auto path = fresh_dir() / "ca.pem";
      std::ofstream(path) << certificate.certificate_pem;
      config_.upstreams.back().ca_file = path;
    }
    start();
    Wire wire = client();
    wire.send(post("/v1/chat/completions", "{}"));
    Message message = read_message(wire);
    wire.close();
    stop();
    return message;
  }
  static void serve(Wire& wire, net::ssl::context& context) {
    net::io_context io;
    net::ssl::stream<net::ip::tcp::socket> stream(
        net::ip::tcp::socket(io, net::ip::tcp::v4(), ::dup(wire.handle())), context);
    boost::system::error_code error;
    stream.handshake(net::ssl::stream_base::server, error);
    if (error) return;
    std::string got;
    char piece[4096];
    while (got.find("\r\n\r\n{}") == std::string::npos) {
      const std::size_t bytes = stream.read_some(net::buffer(piece), error);
      if (error) return;
      got.append(piece, bytes);
    }
    net::write(stream, net::buffer(answer("{\"secret\":1}")), error);
    stream.read_some(net::buffer(piece), error);
  }
};

TEST_F(Tls, AsksAServerWhoseCertificateAndNameAreRight) {
  EXPECT_EQ(ask_with("IP:127.0.0.1", true).body, "{\"secret\":1}");
  EXPECT_EQ(response_leaf()["status"], "complete");
}

TEST_F(Tls, RefusesACertificateOfAnotherName) {
  EXPECT_THAT(ask_with("DNS:example.com", true).head, HasSubstr("502"));
  const Json leaf = response_leaf();
  EXPECT_EQ(leaf["status"], "upstream_error");
  EXPECT_EQ(leaf["error"]["kind"], "tls");
}

TEST_F(Tls, RefusesACertificateThatNobodyVouchesFor) {
  EXPECT_THAT(ask_with("IP:127.0.0.1", false).body, HasSubstr("certificate refused"));
}

}  // namespace
}  // namespace verbatim::test
