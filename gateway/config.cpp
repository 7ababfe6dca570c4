#include "gateway/config.hpp"

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>
#include <charconv>

namespace verbatim::gateway {

namespace {

Error bad(std::string what, std::string_view where, std::string advice = "") {
  return {Errc::invalid_input, std::move(what), std::string(where), std::move(advice)};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         name.find_first_of(" \t\r\n\"'=") == std::string_view::npos;
}

/// Splits "NAME=REST".
Result<std::pair<std::string, std::string>> parse_pair(std::string_view text,
                                                       std::string_view form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || !is_name(text.substr(0, equals)) ||
      equals + 1 == text.size()) {
    return bad("'" + std::string(text) + "' is not " + std::string(form), "",
               "a name has no blanks or quotes");
  }
  return std::pair(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
}

/// What an upstream speaks, by what it is called; Google has OpenAI's API as well, in a folder of its own.
Dialect dialect_by_name(std::string_view name, std::string_view host, std::string_view prefix) {
  const auto is_called = [&](std::string_view word) {
    return name.find(word) != std::string_view::npos || host.find(word) != std::string_view::npos;
  };
  if (is_called("anthropic")) return Dialect::anthropic;
  const bool google = is_called("gemini") || is_called("google");
  return google && !prefix.ends_with("/openai") ? Dialect::gemini : Dialect::openai;
}

/// What a URL's host may be once its escapes are undone: nothing that ends a line or begins another part of a message.
bool is_plain_host(std::string_view host) {
  return !host.empty() && std::none_of(host.begin(), host.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f ||
           std::string_view("/\\?#@[]<>\"").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string HostPort::str() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto refuse = [&] {
    return bad("'" + std::string(text) + "' is not HOST:PORT", "", "for example 127.0.0.1:8080");
  };
  if (colon == std::string_view::npos) return refuse();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refuse();
  }
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port > 65535 ||
      host.empty()) {
    return refuse();
  }
  return HostPort{std::string(host), static_cast<std::uint16_t>(port)};
}

Result<BaseUrl> parse_base_url(std::string_view text) {
  const auto parsed = boost::urls::parse_uri(boost::core::string_view(text.data(), text.size()));
  const std::string shown = "'" + std::string(text.substr(0, 200)) + "'";
  if (!parsed) return bad(shown + " is not a URL", "", "for example https://api.openai.com");
  const boost::urls::url_view& url = *parsed;
  BaseUrl base;
  if (url.scheme_id() == boost::urls::scheme::https) {
    base.tls = true;
  } else if (url.scheme_id() != boost::urls::scheme::http) {
    return bad(shown + " is neither http nor https", "");
  }
  // The URL is written into logs and leaves: a password does not belong there.
  if (url.has_userinfo()) return bad("an upstream's URL must not hold credentials", "");
  if (url.has_query() || url.has_fragment()) {
    return bad(shown + " has a query or a fragment", "", "give the base URL only");
  }
  base.address.host = std::string(url.host_address());
  if (!is_plain_host(base.address.host)) return bad(shown + " names no host", "");
  base.address.port = base.tls ? 443 : 80;
  if (url.has_port()) {
    const std::string digits(url.port());
    unsigned port = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || port == 0 || port > 65535)
      return bad(shown + " has no valid port", "");
    base.address.port = static_cast<std::uint16_t>(port);
  }
  base.prefix = std::string(url.encoded_path());
  while (base.prefix.ends_with('/')) base.prefix.pop_back();
  for (const std::string_view version : {"/v1", "/v1beta"}) {
    if (!base.version.empty() || !base.prefix.ends_with(version)) continue;
    base.prefix.resize(base.prefix.size() - version.size());
    base.version = version;
  }
  return base;
}

std::string BaseUrl::target(std::string_view request_target) const {
  const std::string_view first = request_target.substr(0, request_target.find_first_of("/?", 1));
  // Google has the same methods under several versions: the request's is the one that is meant.
  const bool has_version = first == "/v1" || (version == "/v1beta" && first.starts_with("/v1"));
  std::string out = prefix;
  if (!has_version) out += version;
  return out.append(request_target);
}

std::string BaseUrl::host_field() const {
  const std::string text = address.str();
  const std::string own = tls ? ":443" : ":80";
  return text.ends_with(own) ? text.substr(0, text.size() - own.size()) : text;
}

Result<UpstreamConfig> parse_upstream(std::string_view text) {
  const auto pair = parse_pair(text, "NAME=URL");
  if (!pair) return pair.error();
  const auto url = parse_base_url(pair->second);
  if (!url) return url.error();
  UpstreamConfig upstream;
  upstream.name = pair->first;
  upstream.url = *url;
  upstream.dialect = dialect_by_name(lower(pair->first), lower(url->address.host), url->prefix);
  return upstream;
}

Result<ModelConfig> parse_model(std::string_view text) {
  const auto pair = parse_pair(text, "NAME=PATH");
  if (!pair) return pair.error();
  return ModelConfig{pair->first, pair->second};
}

std::string_view mode_name(audit::DurabilityMode mode) {
  switch (mode) {
    case audit::DurabilityMode::strict:
      return "strict";
    case audit::DurabilityMode::overlap:
      return "overlap";
    case audit::DurabilityMode::relaxed:
      return "relaxed";
  }
  return "";
}

namespace {

Json describe_route(const std::string& name, const RouteMatch& where) {
  return {{"name", name}, {"path", where.path}, {"api", where.api}, {"upstream", where.upstream}};
}

Json describe_pointers(const std::vector<JsonPointer>& pointers) {
  Json out = Json::array();
  for (const JsonPointer& pointer : pointers) out.push_back(pointer.str());
  return out;
}

void describe_retention(const GatewayConfig& config, Json& out) {
  out["retention"] = Json::array();
  for (const RetentionRule& rule : config.retention) {
    Json one = describe_route(rule.retention.name, rule.where);
    one["minimum_days"] = rule.retention.days;
    one["basis"] = rule.retention.basis;
    out["retention"].push_back(std::move(one));
  }
}

void describe_capture(const GatewayConfig& config, Json& out) {
  out["capture"] = Json::array();
  for (const CaptureRule& rule : config.capture) {
    Json one = describe_route(rule.name, rule.where);
    one["level"] = capture_level_name(rule.level);
    out["capture"].push_back(std::move(one));
  }
  out["redact"] = Json::array();
  for (const auto& rule : config.redact) {
    Json one = describe_route(rule->name, rule->where);
    one["pointers"] = describe_pointers(rule->pointers);
    one["answer_pointers"] = describe_pointers(rule->answer_pointers);
    one["headers"] = rule->headers;
    one["patterns"] = Json::array();
    for (std::size_t i = 0; i < rule->patterns.size(); ++i) {
      if (rule->patterns[i])
        one["patterns"].push_back(secret_kind_name(static_cast<SecretKind>(i)));
    }
    out["redact"].push_back(std::move(one));
  }
}

}  // namespace

std::string describe_config(const GatewayConfig& config) {
  Json out = Json::object();
  out["listen"] = config.listen.str();
  out["mode"] = mode_name(config.mode);
  out["on_log_failure"] =
      config.on_log_failure == OnLogFailure::fail_closed ? "fail_closed" : "fail_open";
  out["tenant"] = config.tenant;
  out["upstreams"] = Json::array();
  for (const UpstreamConfig& upstream : config.upstreams) {
    out["upstreams"].push_back({{"name", upstream.name},
                                {"tls", upstream.url.tls},
                                {"address", upstream.url.address.str()},
                                {"prefix", upstream.url.prefix},
                                {"dialect", dialect_name(upstream.dialect)},
                                {"ca_file", upstream.ca_file.string()},
                                {"client_certificate", upstream.client_certificate.string()},
                                {"client_key", !upstream.client_key.empty()},
                                {"credential_env", upstream.credential_env},
                                {"credential_file", upstream.credential_file.string()},
                                {"credential_header", upstream.credential_header},
                                {"environment_paths", upstream.environment_paths},
                                {"environment_every_s", upstream.environment_every.count()}});
  }
  out["models"] = Json::array();
  for (const ModelConfig& model : config.models) {
    out["models"].push_back({{"name", model.name},
                             {"path", model.path.filename().string()},
                             {"layer_digest_bytes", model.layer_digest_bytes},
                             {"activation_fingerprints", model.activation_fingerprints}});
  }
  out["tls"] = {{"certificate", config.tls.certificate.string()},
                {"key", !config.tls.key.empty()},
                {"client_ca", config.tls.client_ca.string()}};
  out["keys"] = Json::array();
  for (const GatewayKey& key : config.keys) {
    out["keys"].push_back({{"name", key.name},
                           {"id", key.hash.id},
                           {"tenant", key.tenant},
                           {"models", key.models},
                           {"requests_per_minute", key.requests_per_minute},
                           {"concurrent_max", key.concurrent_max},
                           {"expires", key.expires_us == 0 ? "" : format_rfc3339(key.expires_us)}});
  }
  out["admin"] = config.admin_enabled ? config.admin.str() : "off";
  out["hosts"] = config.hosts;
  out["admin_hosts"] = config.admin_hosts;
  out["health_path"] = config.health_path;
  out["admin_token"] = !config.admin_token.empty();  // whether, never which
  out["cache"] = {{"greedy", config.cache.greedy},
                  {"seeded", config.cache.seeded},
                  {"always", config.cache.always},
                  {"share_remote", config.cache.share_remote},
                  {"body_bytes_max", config.cache.body_bytes_max},
                  {"memory_bytes_max", config.cache.memory_bytes_max},
                  {"observe_percent", config.cache.observe_percent},
                  {"compare_as", describe_normal_form(config.cache.compare_as)},
                  {"ttl_s", config.cache.ttl.count()}};
  describe_capture(config, out);
  describe_retention(config, out);
  const Limits& limits = config.limits;
  out["limits"] = {{"header_bytes_max", limits.header_bytes_max},
                   {"body_bytes_max", limits.body_bytes_max},
                   {"response_bytes_max", limits.response_bytes_max},
                   {"decoded_bytes_max", limits.decoded_bytes_max},
                   {"stream_above_bytes", limits.stream_above_bytes},
                   {"stream_record_bytes", limits.stream_record_bytes},
                   {"stream_bytes_max", limits.stream_bytes_max},
                   {"websocket_record_bytes", limits.websocket_record_bytes},
                   {"connections_max", limits.connections_max},
                   {"idle_upstream_max", limits.idle_upstream_max},
                   {"rejections_per_s", ecmascript_number(limits.rejections_per_s)}};
  const Timeouts& timeouts = config.timeouts;
  out["timeouts"] = {{"client_head_ms", timeouts.client_head.count()},
                     {"client_body_ms", timeouts.client_body.count()},
                     {"client_write_ms", timeouts.client_write.count()},
                     {"connect_ms", timeouts.connect.count()},
                     {"first_byte_ms", timeouts.first_byte.count()},
                     {"idle_ms", timeouts.idle.count()},
                     {"upstream_keep_alive_ms", timeouts.upstream_keep_alive.count()},
                     {"trailing_ms", timeouts.trailing.count()},
                     {"drain_ms", timeouts.drain.count()},
                     {"websocket_idle_ms", timeouts.websocket_idle.count()},
                     {"keep_alive_comment_ms", timeouts.keep_alive_comment.count()}};
  const local_engine::EngineOptions& engine = config.engine;
  out["engine"] = {{"backend", engine.backend},
                   {"cuda_fallback", engine.cuda_fallback},
                   {"profile", engine.profile},
                   {"threads", engine.threads},
                   {"batch_rows_max", engine.batch_rows_max},
                   {"prefill_chunk", engine.prefill_chunk},
                   {"kv_bytes_max", engine.kv_bytes_max},
                   {"queue_max", engine.queue_max},
                   {"prefix_cache", engine.prefix_cache}};
  return canonical(out);
}

std::string_view needs_restart(const GatewayConfig& now, const GatewayConfig& next) {
  if (now.listen.str() != next.listen.str()) return "gateway.listen";
  if (now.admin.str() != next.admin.str()) return "gateway.admin";
  if (now.admin_enabled != next.admin_enabled) return "gateway.admin_enabled";
  if (now.tls.enabled() != next.tls.enabled()) return "tls.certificate";
  if (now.data != next.data) return "log.data";
  if (now.mode != next.mode) return "log.mode";
  if (now.cache.memory_bytes_max != next.cache.memory_bytes_max) return "cache.memory_bytes_max";
  if (now.limits.rejections_per_s != next.limits.rejections_per_s) return "limits.rejections_per_s";
  const auto same_model = [](const ModelConfig& a, const ModelConfig& b) {
    return a.name == b.name && a.path == b.path && a.layer_digest_bytes == b.layer_digest_bytes &&
           a.activation_fingerprints == b.activation_fingerprints;
  };
  if (!std::equal(now.models.begin(), now.models.end(), next.models.begin(), next.models.end(),
                  same_model)) {
    return "model";
  }
  const local_engine::EngineOptions &a = now.engine, &b = next.engine;
  const bool same_engine = a.backend == b.backend && a.cuda_fallback == b.cuda_fallback &&
                           a.profile == b.profile && a.threads == b.threads &&
                           a.batch_rows_max == b.batch_rows_max &&
                           a.prefill_chunk == b.prefill_chunk && a.kv_bytes_max == b.kv_bytes_max &&
                           a.queue_max == b.queue_max && a.prefix_cache == b.prefix_cache;
  return same_engine ? "" : "engine";
}

}  // namespace verbatim::gateway
