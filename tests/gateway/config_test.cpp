#include "gateway/config.hpp"

#include "schema/canonical_json.hpp"
#include "schema/clock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbatim::gateway {
namespace {

TEST(Config, BaseUrlsNeverDoubleV1) {
  const auto target = [](const char* url, const char* request) {
    return parse_base_url(url).value().target(request);
  };
  EXPECT_EQ(target("https://api.openai.com", "/v1/models"), "/v1/models");
  EXPECT_EQ(target("https://api.openai.com/v1", "/v1/models"), "/v1/models");
  EXPECT_EQ(target("https://api.openai.com/v1/", "/v1/models?a=/v1"), "/v1/models?a=/v1");
  EXPECT_EQ(target("https://api.openai.com/v1", "/models"), "/v1/models");
  EXPECT_EQ(target("https://api.openai.com", "/models"), "/models");
  EXPECT_EQ(target("http://h/openai/v1", "/v1/x"), "/openai/v1/x");
  EXPECT_EQ(target("http://h/anthropic", "/v1/messages"), "/anthropic/v1/messages");
  EXPECT_EQ(target("http://h/v1", "/v1beta/x"), "/v1/v1beta/x");
  EXPECT_EQ(target("http://h/v1beta", "/v1beta/models?key=k"), "/v1beta/models?key=k");
  EXPECT_EQ(target("http://h/v1beta/", "/models"), "/v1beta/models");
  EXPECT_EQ(target("http://h/v1beta", "/v1/models"), "/v1/models");
  EXPECT_EQ(target("http://h/v1beta", "/v2/models"), "/v1beta/v2/models");
}

TEST(Config, BaseUrlsTellHostAndPort) {
  EXPECT_EQ(parse_base_url("https://h").value().address.port, 443);
  EXPECT_EQ(parse_base_url("https://h:443").value().host_field(), "h");
  EXPECT_EQ(parse_base_url("http://h:443").value().host_field(), "h:443");
  EXPECT_EQ(parse_base_url("http://[::1]:8").value().host_field(), "[::1]:8");
  EXPECT_EQ(parse_base_url("http://[::1]:8").value().address.host, "::1");
  for (const char* bad : {"", "h:80", "ftp://h", "http://", "http://u:p@h", "http://h?x",
                          "http://h#f", "http://h:99999", "http://h%0d%0aX-Y: z", "http://a%20b",
                          "http://a%2fb", "http://a%40b", "http://h%00"}) {
    EXPECT_FALSE(parse_base_url(bad)) << bad;
  }
  // The message must not repeat a password.
  EXPECT_THAT(parse_base_url("http://u:secret@h").error().message(),
              testing::Not(testing::HasSubstr("secret")));
}

TEST(Config, HostsAndPortsMayBeIpv6) {
  EXPECT_EQ(parse_host_port("[::1]:80").value().str(), "[::1]:80");
  EXPECT_EQ(parse_host_port("localhost:0").value().port, 0);
  for (const char* bad : {"", "80", "h:", "h:x", "h:70000", "::1:80", ":80", "h:-1"}) {
    EXPECT_FALSE(parse_host_port(bad)) << bad;
  }
}

TEST(Config, AWholeFileIsRead) {
  const auto config = parse_config(R"(
[gateway]
listen = "0.0.0.0:9000"
admin_token = "t"
admin_hosts = ["verbatim", "*"]
hosts = ["verbatim.example"]
health_path = ""
[log]
mode = "overlap"
on_failure = "fail_open"
[cache]
policy = "greedy"
ttl_s = 60
[limits]
body_bytes_max = 1024
[timeouts]
idle_ms = 5000
[engine]
threads = 2
backend = "cuda"
cuda_fallback = "cpu"
[[upstream]]
name = "claude"
url = "https://example.com/v1"
dialect = "anthropic"
[[model]]
name = "demo"
path = "/models/demo"
)",
                                   "f.toml")
                          .value();
  EXPECT_EQ(config.listen.str(), "0.0.0.0:9000");
  EXPECT_EQ(config.admin_hosts, (std::vector<std::string>{"verbatim", "*"}));
  EXPECT_EQ(config.hosts, std::vector<std::string>{"verbatim.example"});
  EXPECT_EQ(config.health_path, "");
  EXPECT_EQ(config.mode, audit::DurabilityMode::overlap);
  EXPECT_EQ(config.on_log_failure, OnLogFailure::fail_open);
  EXPECT_TRUE(config.cache.greedy);
  EXPECT_FALSE(config.cache.seeded);
  EXPECT_EQ(config.cache.ttl.count(), 60);
  EXPECT_EQ(config.limits.body_bytes_max, 1024u);
  EXPECT_EQ(config.timeouts.idle.count(), 5000);
  EXPECT_EQ(config.engine.threads, 2);
  EXPECT_EQ(config.engine.backend, "cuda");
  EXPECT_EQ(config.engine.cuda_fallback, "cpu");
  ASSERT_EQ(config.upstreams.size(), 1u);
  EXPECT_EQ(config.upstreams[0].dialect, Dialect::anthropic);
  EXPECT_EQ(config.models.at(0).name, "demo");
  EXPECT_THAT(describe_config(config), testing::Not(testing::HasSubstr("\"t\"")));
  EXPECT_TRUE(parse_json(describe_config(config)));
}

TEST(Config, MistakesNameLineAndKey) {
  const auto message = [](const char* toml) {
    return parse_config(toml, "f.toml").error().message();
  };
  EXPECT_EQ(message("[gateway]\nlisen = 1"), "unknown key 'gateway.lisen' (f.toml line 2)");
  EXPECT_EQ(message("[gateway]\nlisten = 1"), "'gateway.listen' must be a string (f.toml line 2)");
  EXPECT_EQ(message("[log]\nmode = \"fast\""),
            "'log.mode' must be one of overlap, relaxed, strict (f.toml line 2)");
  EXPECT_EQ(message("[timeouts]\nidle_ms = 0"),
            "'timeouts.idle_ms' must be an integer from 1 to 86400000 (f.toml line 2)");
  EXPECT_EQ(message("[limits]\nbody_bytes_max = 0"),
            "'limits.body_bytes_max' must be an integer from 1024 to 4294967296 (f.toml line 2)");
  EXPECT_THAT(message("[log]\ndata = \"a\\u0000b\""), testing::HasSubstr("NUL"));
  EXPECT_THAT(message("[[upstream]]\nname = \"a\"\nurl = \"x\""),
              testing::HasSubstr("'x' is not a URL"));
  const std::string key =
      "[[key]]\nname = \"a\"\nhash = \"" + make_gateway_key().hash.str() + "\"\n";
  EXPECT_THAT(message((key + "expires = \"soon\"").c_str()),
              testing::AllOf(testing::HasSubstr("expires: 'soon' is not a time"),
                             testing::HasSubstr("f.toml line 4")));
  EXPECT_THAT(message("[[key]]\nname = \"a\"\nhash = \"x\""), testing::HasSubstr("f.toml line 3"));
  for (const char* header : {"[gateway", "[$]", "[[$]]", "[a.$]", "[ ]", "[\x01", "\xC3\xA4 = 1",
                             "tenant = \xC3\xA4", "\xEF\xB9\xBF", "[\xE2\xB9\x80]"}) {
    EXPECT_THAT(message(header), testing::HasSubstr("f.toml line 1")) << header;
  }
  EXPECT_THAT(message("[gateway]\nadmin_hosts = [\"a\", \"b:80\"]"),
              testing::HasSubstr("'b:80' is no host name, without a port"));
  EXPECT_THAT(message("[gateway]\nhosts = [\"http://a\"]"), testing::HasSubstr("'http://a'"));
  EXPECT_THAT(message("[gateway]\nhealth_path = \"healthz\""), testing::HasSubstr("is no path"));
  EXPECT_THAT(message("gateway = 1"), testing::HasSubstr("'gateway' must be a table"));
}

TEST(Config, ATimeMayBeWrittenAsTomlHasIt) {
  const std::string key =
      "[[key]]\nname = \"a\"\nhash = \"" + make_gateway_key().hash.str() + "\"\n";
  const std::int64_t at = parse_rfc3339("2027-06-30").value();
  for (const char* written :
       {"\"2027-06-30\"", "2027-06-30", "2027-06-30T00:00:00Z", "2027-06-30T02:00:00+02:00"}) {
    const auto config = parse_config(key + "expires = " + written, "f.toml");
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->keys.at(0).expires_us, at) << written;
  }
}

TEST(Config, UpstreamsFromTheCommandLineKnowTheirDialect) {
  const auto dialect = [](const char* text) { return parse_upstream(text).value().dialect; };
  EXPECT_EQ(dialect("openai=https://api.openai.com"), Dialect::openai);
  EXPECT_EQ(dialect("a=https://api.anthropic.com"), Dialect::anthropic);
  EXPECT_EQ(dialect("a=https://generativelanguage.googleapis.com/v1beta"), Dialect::gemini);
  EXPECT_EQ(dialect("gemini=http://h"), Dialect::gemini);
  EXPECT_EQ(dialect("a=https://generativelanguage.googleapis.com/v1beta/openai"), Dialect::openai);
  for (const char* bad : {"", "x", "=http://h", "a=", "a b=http://h"})
    EXPECT_FALSE(parse_upstream(bad)) << bad;
}

}  // namespace
}  // namespace verbatim::gateway
