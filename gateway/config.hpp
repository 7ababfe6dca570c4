#pragma once
// What the gateway is told: by a TOML file, by the command line, or by a test.

#include "audit/log.hpp"
#include "gateway/capture.hpp"
#include "gateway/gateway_keys.hpp"
#include "gateway/retention_rules.hpp"
#include "local_engine/engine.hpp"
#include "schema/error.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

struct HostPort {
  std::string host;  ///< a name or a literal address; IPv6 without brackets
  std::uint16_t port = 0;
  [[nodiscard]] std::string str() const;  ///< with brackets where they are needed
};

/// "host:port", "[::1]:80". `invalid_input` otherwise.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);

/// Where a remote upstream is.
struct BaseUrl {
  bool tls = false;
  HostPort address;
  std::string
      prefix;  ///< path before the request's own, without a slash at its end; a final /v1 is cut

  /// The target to ask the upstream for. /v1 is there exactly once if the URL or the request had
  /// it.
  [[nodiscard]] std::string target(std::string_view request_target) const;
  /// The value of Host: without the port if it is the scheme's own.
  [[nodiscard]] std::string host_field() const;

  bool had_v1 = false;
};

/// `invalid_input`: not http or https, credentials, query or fragment in it, or no host.
[[nodiscard]] Result<BaseUrl> parse_base_url(std::string_view url);

struct UpstreamConfig {
  std::string name;
  BaseUrl url;
  bool anthropic = false;         ///< speaks Anthropic's API: its requests go here
  std::filesystem::path ca_file;  ///< PEM; "" is the system's store
  /// What the gateway shows the server of itself (mTLS); both or neither.
  std::filesystem::path client_certificate, client_key;
  /// Where the provider's credential is, which then takes the place of what the client sent; at most one of the two.
  std::string credential_env;
  std::filesystem::path credential_file;
  std::string
      credential_header;  ///< "": the one that the client used, authorization if it used none
  /// Paths at which the server says what it is; asked now and then, and recorded when it changes. Empty: not asked.
  std::vector<std::string> environment_paths;
  std::chrono::seconds environment_every{300};
};

/// The listener's certificate. Without one it speaks plain HTTP.
struct TlsConfig {
  std::filesystem::path certificate, key;  ///< PEM; the certificate with its chain
  std::filesystem::path
      client_ca;  ///< PEM: clients must show a certificate of these CAs; "": they need none
  [[nodiscard]] bool enabled() const { return !certificate.empty(); }
};

struct ModelConfig {
  std::string name;
  std::filesystem::path path;
  /// Kept with each answer for replays: digests of its layers, in at most so many bytes (0: none), and a
  /// fingerprint of its activations.
  std::size_t layer_digest_bytes = 0;
  bool activation_fingerprints = false;
};

enum class OnLogFailure { fail_closed, fail_open };

struct CachePolicy {
  bool greedy = true;
  bool seeded = true;
  bool always = false;          ///< sampled requests too
  bool share_remote = false;    ///< hits of remote upstreams across the credentials of a tenant
  std::chrono::seconds ttl{0};  ///< 0: for ever
  std::size_t body_bytes_max = 16u << 20;
  std::size_t memory_bytes_max = 64u << 20;  ///< answers kept ready, beside the log
  /// So many of a hundred hits go upstream all the same, and what comes is compared with the canonical answer.
  std::uint32_t observe_percent = 0;
};

struct Limits {
  std::uint32_t header_bytes_max = 64u << 10;
  std::uint64_t body_bytes_max = 64u << 20;
  std::uint64_t response_bytes_max =
      256u << 20;  ///< longer answers are cut off, and recorded as cut off
  std::size_t decoded_bytes_max = 64u
                                  << 20;  ///< of a compressed body, for the gateway's own reading
  /// Longer bodies that nobody here reads (files, audio, pictures) pass through without being kept whole.
  std::uint64_t stream_above_bytes = 1u << 20;
  std::size_t stream_record_bytes = 64u << 10;              ///< of those, so much is recorded
  std::uint64_t stream_bytes_max = std::uint64_t{8} << 30;  ///< of such a request
  std::size_t websocket_record_bytes = 4u << 20;            ///< of each direction of a WebSocket
  std::size_t connections_max = 8192;
  std::size_t idle_upstream_max = 256;  ///< kept open for each upstream
  double rejections_per_s =
      20;  ///< with leaves of their own; more are counted in one leaf a second
};

struct Timeouts {
  std::chrono::milliseconds client_head{
      60'000};  ///< also how long a kept-alive connection may idle
  std::chrono::milliseconds client_body{60'000};  ///< between two reads of a request's body
  std::chrono::milliseconds client_write{60'000};
  std::chrono::milliseconds connect{10'000};  ///< TLS handshake included
  std::chrono::milliseconds first_byte{600'000};
  std::chrono::milliseconds idle{300'000};  ///< between two reads of a response
  std::chrono::milliseconds upstream_keep_alive{55'000};
  std::chrono::milliseconds trailing{
      250};  ///< how long the end of a response may take after its terminal event
  std::chrono::milliseconds drain{30'000};
  std::chrono::milliseconds websocket_idle{600'000};  ///< without a byte in either direction
  /// After so long without an event a client is sent a comment in a stream; 0: never.
  std::chrono::milliseconds keep_alive_comment{0};
};

struct GatewayConfig {
  std::filesystem::path data;  ///< folder of the log; "": what the command line says
  std::string signing_key;     ///< pkcs11: URI of the key of a log that is made anew; "": a file
  HostPort listen{"127.0.0.1", 8080};
  HostPort admin{"127.0.0.1", 0};
  /// Names by which clients and operators may ask, beside the listeners' own (host_rule.hpp); "*": by any. Without `hosts`
  /// clients may ask by any.
  std::vector<std::string> hosts, admin_hosts;
  /// Whether the gateway takes requests and can record, told to clients; "": the path is the upstreams'.
  std::string health_path = "/healthz";
  std::string admin_token;  ///< asked for by /metrics; "" asks for none
  bool admin_enabled = true;
  TlsConfig tls;
  std::vector<GatewayKey> keys;
  std::vector<UpstreamConfig> upstreams;
  std::vector<ModelConfig> models;
  audit::DurabilityMode mode = audit::DurabilityMode::strict;
  OnLogFailure on_log_failure = OnLogFailure::fail_closed;
  CachePolicy cache;
  std::vector<CaptureRule> capture;      ///< the first that fits; without one everything is stored
  RedactionRules redact;                 ///< all that fit
  std::vector<RetentionRule> retention;  ///< the first that fits; without one no minimum period
  Limits limits;
  Timeouts timeouts;
  local_engine::EngineOptions engine;
  std::string tenant = "default";
};

/// "NAME=URL" as the command line gives it.
[[nodiscard]] Result<UpstreamConfig> parse_upstream(std::string_view text);
/// "NAME=PATH".
[[nodiscard]] Result<ModelConfig> parse_model(std::string_view text);

/// Reads a TOML document. `name` is the file's name, for messages. `invalid_input` names line and
/// key; a key that is not known is an error, so that a typing mistake never passes for a setting.
[[nodiscard]] Result<GatewayConfig> parse_config(std::string_view toml, std::string_view name);

/// The effective configuration as canonical JSON: what the `config` leaf commits to. Holds no
/// secret.
[[nodiscard]] std::string describe_config(const GatewayConfig& config);

/// The first setting in which the two differ and which needs a restart to come into force; "" if there is none.
[[nodiscard]] std::string_view needs_restart(const GatewayConfig& now, const GatewayConfig& next);

[[nodiscard]] std::string_view mode_name(audit::DurabilityMode mode);

}  // namespace verbatim::gateway
