#include "gateway/tls.hpp"

#include <openssl/ssl.h>

#include <string>

namespace verbatim::gateway {

namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Error unreadable(const char* what, const std::filesystem::path& file, const error_code& error) {
  return {Errc::invalid_input, std::string("cannot use the ") + what + ": " + error.message(),
          file.string(), "give a PEM file"};
}

Result<void> use_certificate(ssl::context& context, const std::filesystem::path& certificate,
                             const std::filesystem::path& key) {
  error_code error;
  context.use_certificate_chain_file(certificate.string(), error);
  if (error) return unreadable("certificate", certificate, error);
  // A key that belongs to another certificate is refused here too.
  context.use_private_key_file(key.string(), ssl::context::pem, error);
  if (error) return unreadable("private key", key, error);
  return {};
}

}  // namespace

Result<std::shared_ptr<ssl::context>> make_server_tls(const TlsConfig& config) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  if (auto used = use_certificate(*context, config.certificate, config.key); !used)
    return used.error();
  if (!config.client_ca.empty()) {
    error_code error;
    context->load_verify_file(config.client_ca.string(), error);
    if (error) return unreadable("clients' CA", config.client_ca, error);
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  }
  return context;
}

Result<std::unique_ptr<ssl::context>> make_client_tls(const UpstreamConfig& upstream) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  error_code error;
  if (upstream.ca_file.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(upstream.ca_file.string(), error);
  }
  if (error) return unreadable("CA file", upstream.ca_file, error);
  if (!upstream.client_certificate.empty()) {
    auto used = use_certificate(*context, upstream.client_certificate, upstream.client_key);
    if (!used) return used.error();
  }
  // By name: the pointer converts in two ways.
  return Result<std::unique_ptr<ssl::context>>(boost::system::in_place_value, std::move(context));
}

}  // namespace verbatim::gateway
