// The TOML form of the configuration: each table is a list of keys with the place each one sets.

#include "audit/pkcs11_uri.hpp"
#include "gateway/config.hpp"
#include "gateway/config_capture.hpp"
#include "gateway/request_target.hpp"
#include "gateway/toml_reader.hpp"

#include <algorithm>
#include <optional>

namespace verbatim::gateway {

namespace {

using Reader = TomlReader;

Reader::Setter host_port(Reader& reader, HostPort& to) {
  return [&reader, &to](const toml::node& node, const std::string& key) {
    std::string text;
    reader.text(text)(node, key);
    if (auto parsed = parse_host_port(text)) {
      to = *parsed;
    } else {
      reader.take(node, parsed.error());
    }
  };
}

/// What may stand in a request line.
bool is_path(std::string_view text) {
  return text.starts_with('/') && text.size() <= 256 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

void read_upstream(Reader& reader, const toml::table& table, const std::string& key,
                   GatewayConfig& config) {
  std::string name, url;
  std::optional<Dialect> dialect;
  UpstreamConfig more;
  std::vector<std::string> environment_paths;
  std::int64_t environment_every_s = more.environment_every.count();
  reader.table(
      table, key,
      {{"name", reader.text(name)},
       {"url", reader.text(url)},
       {"ca_file", reader.path(more.ca_file)},
       {"client_certificate", reader.path(more.client_certificate)},
       {"client_key", reader.path(more.client_key)},
       {"credential_env", reader.text(more.credential_env)},
       {"credential_file", reader.path(more.credential_file)},
       {"credential_header",
        reader.one_of({{"", [] {}},
                       {"authorization", [&] { more.credential_header = "authorization"; }},
                       {"x-api-key", [&] { more.credential_header = "x-api-key"; }},
                       {"api-key", [&] { more.credential_header = "api-key"; }},
                       {"x-goog-api-key", [&] { more.credential_header = "x-goog-api-key"; }}})},
       {"environment_paths", reader.texts(environment_paths)},
       {"environment_every_s", reader.count(environment_every_s, 1, 86'400)},
       {"server",
        reader.one_of(
            {{"", [] {}},
             {"vllm",
              [&] {
                more.environment_paths = {"/version", "/v1/models"};
              }},
             {"sglang",
              [&] {
                more.environment_paths = {"/get_model_info", "/server_info", "/get_server_info"};
              }},
             {"ollama",
              [&] {
                more.environment_paths = {"/api/version", "/api/tags"};
              }},
             {"llama.cpp",
              [&] {
                more.environment_paths = {"/props", "/v1/models"};
              }}})},
       {"dialect", reader.one_of({{"openai", [&] { dialect = Dialect::openai; }},
                                  {"anthropic", [&] { dialect = Dialect::anthropic; }},
                                  {"gemini", [&] { dialect = Dialect::gemini; }}})}});
  auto upstream = parse_upstream(name + "=" + url);
  if (!upstream) return reader.take(Reader::member(table, "url"), upstream.error());
  more.dialect = dialect.value_or(upstream->dialect);
  more.name = upstream->name;
  more.url = upstream->url;
  if (!environment_paths.empty()) more.environment_paths = std::move(environment_paths);
  more.environment_every = std::chrono::seconds(environment_every_s);
  for (const std::string& path : more.environment_paths) {
    if (!is_path(path)) {
      reader.fail(Reader::member(table, "environment_paths"),
                  "'" + path + "' is no path: /version");
    }
  }
  if (more.client_certificate.empty() != more.client_key.empty()) {
    reader.fail(table, "client_certificate and client_key go together");
  }
  if (!more.credential_env.empty() && !more.credential_file.empty()) {
    reader.fail(table, "a credential is in credential_env or in credential_file");
  }
  config.upstreams.push_back(std::move(more));
}

void read_model(Reader& reader, const toml::table& table, const std::string& key,
                GatewayConfig& config) {
  ModelConfig model;
  reader.table(table, key,
               {{"name", reader.text(model.name)},
                {"path", reader.path(model.path)},
                {"layer_digest_bytes", reader.count(model.layer_digest_bytes, 0, 1 << 24)},
                {"activation_fingerprints", reader.flag(model.activation_fingerprints)}});
  if (model.name.empty() || model.path.empty()) reader.fail(table, "a model needs name and path");
  config.models.push_back(model);
}

void read_key(Reader& reader, const toml::table& table, const std::string& path,
              GatewayConfig& config) {
  GatewayKey key;
  std::string hash, expires;
  key.tenant.clear();
  reader.table(table, path,
               {{"name", reader.text(key.name)},
                {"hash", reader.text(hash)},
                {"tenant", reader.text(key.tenant)},
                {"models", reader.texts(key.models)},
                {"requests_per_minute", reader.count(key.requests_per_minute, 0, 1'000'000'000)},
                {"concurrent_max", reader.count(key.concurrent_max, 0, 1'000'000)},
                {"expires", reader.time(expires)}});
  if (key.name.empty()) return reader.fail(table, "a key needs a name");
  const auto parsed = parse_key_hash(hash);
  if (!parsed) {
    return reader.fail(Reader::member(table, "hash"),
                       "key '" + key.name + "': " + parsed.error().message());
  }
  key.hash = *parsed;
  if (!expires.empty()) {
    const auto at = parse_rfc3339(expires);
    if (!at) {
      return reader.fail(Reader::member(table, "expires"),
                         "key '" + key.name + "': expires: " + at.error().what +
                             "; write it as \"2027-01-31T00:00:00Z\" or \"2027-01-31\"");
    }
    key.expires_us = *at;
  }
  for (const GatewayKey& other : config.keys) {
    if (other.hash.id == key.hash.id || other.name == key.name) {
      return reader.fail(table, "key '" + key.name + "' is there twice");
    }
  }
  config.keys.push_back(std::move(key));
}

void set_cache_policy(CachePolicy& cache, bool greedy, bool seeded, bool always) {
  cache.greedy = greedy;
  cache.seeded = seeded;
  cache.always = always;
}

/// Names as they stand in Host, without a port, or "*".
Reader::Setter host_names(Reader& reader, std::vector<std::string>& to) {
  return [&reader, &to](const toml::node& node, const std::string& key) {
    reader.texts(to)(node, key);
    for (const std::string& name : to) {
      if (name == "*" || host_of(name) == name) continue;
      reader.fail(node, "'" + key + "': '" + name + "' is no host name, without a port, and not *");
    }
  };
}

Reader::Setter health_path(Reader& reader, std::string& to) {
  return [&reader, &to](const toml::node& node, const std::string& key) {
    reader.text(to)(node, key);
    if (!to.empty() && (!is_path(to) || to.find_first_of("?#") != std::string::npos)) {
      reader.fail(node, "'" + key + "': '" + to + "' is no path: /healthz");
    }
  };
}

Reader::Keys gateway_keys(Reader& r, GatewayConfig& c) {
  return {{"listen", host_port(r, c.listen)},
          {"admin", host_port(r, c.admin)},
          {"admin_enabled", r.flag(c.admin_enabled)},
          {"admin_token", r.text(c.admin_token)},
          {"admin_hosts", host_names(r, c.admin_hosts)},
          {"hosts", host_names(r, c.hosts)},
          {"health_path", health_path(r, c.health_path)},
          {"tenant", r.text(c.tenant)}};
}

Reader::Keys log_keys(Reader& r, GatewayConfig& c) {
  using audit::DurabilityMode;
  return {{"data", r.path(c.data)},
          {"signing_key",
           [&r, &c](const toml::node& node, const std::string& key) {
             r.text(c.signing_key)(node, key);
             if (c.signing_key.empty()) return;
             const auto uri = audit::parse_pkcs11_uri(c.signing_key);
             if (!uri) r.fail(node, "log.signing_key: " + uri.error().message());
           }},
          {"mode", r.one_of({{"strict", [&c] { c.mode = DurabilityMode::strict; }},
                             {"overlap", [&c] { c.mode = DurabilityMode::overlap; }},
                             {"relaxed", [&c] { c.mode = DurabilityMode::relaxed; }}})},
          {"on_failure",
           r.one_of({{"fail_closed", [&c] { c.on_log_failure = OnLogFailure::fail_closed; }},
                     {"fail_open", [&c] { c.on_log_failure = OnLogFailure::fail_open; }}})}};
}

Reader::Keys cache_keys(Reader& r, CachePolicy& c) {
  return {{"policy", r.one_of({{"off", [&c] { set_cache_policy(c, false, false, false); }},
                               {"greedy", [&c] { set_cache_policy(c, true, false, false); }},
                               {"seeded", [&c] { set_cache_policy(c, true, true, false); }},
                               {"always", [&c] { set_cache_policy(c, true, true, true); }}})},
          {"share_remote", r.flag(c.share_remote)},
          {"observe_percent", r.count(c.observe_percent, 0, 100)},
          {"compare_as",
           [&r, &c](const toml::node& node, const std::string& key) {
             std::vector<std::string> names;
             r.texts(names)(node, key);
             NormalForm steps;
             for (const std::string& name : names) {
               const auto step = normal_step_named(name);
               if (!step) {
                 r.fail(node, "'" + key + "' may hold nfc, whitespace, width; not '" + name + "'");
               } else {
                 steps.push_back(*step);
               }
             }
             c.compare_as = normal_form_of(std::move(steps));
           }},
          {"body_bytes_max", r.count(c.body_bytes_max, 0, std::int64_t{1} << 32)},
          {"memory_bytes_max", r.count(c.memory_bytes_max, 0, std::int64_t{1} << 36)},
          {"ttl_s", [&r, &c](const toml::node& node, const std::string& key) {
             std::int64_t seconds = 0;
             r.count(seconds, 0, 1'000'000'000)(node, key);
             c.ttl = std::chrono::seconds(seconds);
           }}};
}

Reader::Keys limit_keys(Reader& r, Limits& l) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  return {{"header_bytes_max", r.count(l.header_bytes_max, 1024, 1 << 20)},
          {"body_bytes_max", r.count(l.body_bytes_max, 1024, 4 * kGiB)},
          {"response_bytes_max", r.count(l.response_bytes_max, 1024, 4 * kGiB)},
          {"decoded_bytes_max", r.count(l.decoded_bytes_max, 1024, 4 * kGiB)},
          {"stream_above_bytes", r.count(l.stream_above_bytes, 0, 4 * kGiB)},
          {"stream_record_bytes", r.count(l.stream_record_bytes, 0, 1 << 26)},
          {"stream_bytes_max", r.count(l.stream_bytes_max, 0, std::int64_t{1} << 50)},
          {"websocket_record_bytes", r.count(l.websocket_record_bytes, 0, 1 << 30)},
          {"connections_max", r.count(l.connections_max, 1, 1'000'000)},
          {"idle_upstream_max", r.count(l.idle_upstream_max, 0, 100'000)},
          {"rejections_per_s", r.count(l.rejections_per_s, 0, 1'000'000)}};
}

Reader::Keys timeout_keys(Reader& r, Timeouts& t) {
  return {{"client_head_ms", r.milliseconds(t.client_head)},
          {"client_body_ms", r.milliseconds(t.client_body)},
          {"client_write_ms", r.milliseconds(t.client_write)},
          {"connect_ms", r.milliseconds(t.connect)},
          {"first_byte_ms", r.milliseconds(t.first_byte)},
          {"idle_ms", r.milliseconds(t.idle)},
          {"upstream_keep_alive_ms", r.milliseconds(t.upstream_keep_alive)},
          {"trailing_ms", r.milliseconds(t.trailing)},
          {"drain_ms", r.milliseconds(t.drain)},
          {"websocket_idle_ms", r.milliseconds(t.websocket_idle)},
          {"keep_alive_comment_ms", r.milliseconds(t.keep_alive_comment, 0)}};
}

Reader::Keys engine_keys(Reader& r, local_engine::EngineOptions& e) {
  return {{"backend", r.text(e.backend)},
          {"cuda_fallback", r.one_of({{"refuse", [&e] { e.cuda_fallback = "refuse"; }},
                                      {"cpu", [&e] { e.cuda_fallback = "cpu"; }}})},
          {"profile", r.text(e.profile)},
          {"threads", r.count(e.threads, 0, 1024)},
          {"batch_rows_max", r.count(e.batch_rows_max, 1, 1 << 20)},
          {"prefill_chunk", r.count(e.prefill_chunk, 1, 1 << 20)},
          {"kv_bytes_max", r.count(e.kv_bytes_max, 1 << 20, std::int64_t{1} << 42)},
          {"queue_max", r.count(e.queue_max, 1, 1 << 20)},
          {"prefix_cache", r.flag(e.prefix_cache)}};
}

}  // namespace

Result<GatewayConfig> parse_config(std::string_view text, std::string_view name) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    return Error{Errc::invalid_input, std::string(parsed.error().description()),
                 std::string(name) + " line " + std::to_string(parsed.error().source().begin.line),
                 "the file must be TOML"};
  }
  GatewayConfig config;
  Reader reader(name);
  reader.table(parsed.table(), "",
               {{"gateway", reader.sub_table(gateway_keys(reader, config))},
                {"log", reader.sub_table(log_keys(reader, config))},
                {"cache", reader.sub_table(cache_keys(reader, config.cache))},
                {"limits", reader.sub_table(limit_keys(reader, config.limits))},
                {"timeouts", reader.sub_table(timeout_keys(reader, config.timeouts))},
                {"engine", reader.sub_table(engine_keys(reader, config.engine))},
                {"tls", reader.sub_table({{"certificate", reader.path(config.tls.certificate)},
                                          {"key", reader.path(config.tls.key)},
                                          {"client_ca", reader.path(config.tls.client_ca)}})},
                {"key", reader.tables([&](const toml::table& table, const std::string& key) {
                   read_key(reader, table, key, config);
                 })},
                {"upstream", reader.tables([&](const toml::table& table, const std::string& key) {
                   read_upstream(reader, table, key, config);
                 })},
                {"model", reader.tables([&](const toml::table& table, const std::string& key) {
                   read_model(reader, table, key, config);
                 })},
                {"capture", reader.tables([&](const toml::table& table, const std::string& key) {
                   read_capture_rule(reader, table, key, config);
                 })},
                {"redact", reader.tables([&](const toml::table& table, const std::string& key) {
                   read_redaction_rule(reader, table, key, config);
                 })},
                {"retention", reader.tables([&](const toml::table& table, const std::string& key) {
                   read_retention_rule(reader, table, key, config);
                 })}});
  if (reader.error()) return *reader.error();
  if (config.tls.certificate.empty() != config.tls.key.empty()) {
    return Error{Errc::invalid_input, "tls.certificate and tls.key go together", std::string(name),
                 ""};
  }
  for (GatewayKey& key : config.keys) {
    if (key.tenant.empty()) key.tenant = config.tenant;
  }
  return config;
}

}  // namespace verbatim::gateway
