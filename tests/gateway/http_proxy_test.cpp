// HTTPS_PROXY and NO_PROXY.

#include "gateway/http_proxy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace verbatim::gateway {
namespace {

/// "direct", "HOST:PORT", "HOST:PORT AUTHORIZATION", or "error".
std::string way(const char* url, const std::map<std::string, std::string>& variables) {
  const auto proxy = proxy_for(parse_base_url(url).value(), [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  if (!proxy) return "error";
  if (!*proxy) return "direct";
  const HttpProxy& it = **proxy;
  return it.address.str() + (it.authorization.empty() ? "" : " " + it.authorization);
}

TEST(HttpProxy, IsTheOneThatTheEnvironmentNames) {
  const char* api = "https://api.example.com";
  EXPECT_EQ(way(api, {}), "direct");
  EXPECT_EQ(way(api, {{"HTTPS_PROXY", "http://p:3128"}}), "p:3128");
  EXPECT_EQ(way(api, {{"https_proxy", "p:3128"}, {"HTTPS_PROXY", "http://other:1"}}), "p:3128");
  EXPECT_EQ(way(api, {{"HTTPS_PROXY", "http://p"}}), "p:80");
  EXPECT_EQ(way(api, {{"HTTPS_PROXY", "http://[::1]:8/"}}), "[::1]:8");
  EXPECT_EQ(way(api, {{"HTTPS_PROXY", "http://u:p%40ss@p:1"}}), "p:1 Basic dTpwQHNz");
  EXPECT_EQ(way(api, {{"HTTP_PROXY", "http://p:1"}}), "direct");
  EXPECT_EQ(way("http://api.example.com", {{"HTTPS_PROXY", "http://p:1"}}), "direct");
  for (const char* bad : {"ftp://p", "https://p:1", "http://", "http://p:99999", "socks5://p:1"}) {
    EXPECT_EQ(way(api, {{"HTTPS_PROXY", bad}}), "error") << bad;
  }
}

TEST(HttpProxy, IsPassedByWhereNoProxySaysSoAndOnThisMachine) {
  const auto with = [](const char* url, const char* excepted) {
    return way(url, {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", excepted}});
  };
  EXPECT_EQ(with("https://api.example.com", "other, example.com"), "direct");
  EXPECT_EQ(with("https://api.example.com", ".EXAMPLE.com"), "direct");
  EXPECT_EQ(with("https://api.example.com", "api.example.com"), "direct");
  EXPECT_EQ(with("https://api.example.com", "*"), "direct");
  EXPECT_EQ(with("https://badexample.com", "example.com"), "p:1");
  EXPECT_EQ(with("https://example.com", "api.example.com"), "p:1");
  EXPECT_EQ(with("https://10.0.0.7", "10.0.0.7"), "direct");
  for (const char* here : {"https://127.0.0.1:8", "https://[::1]", "https://localhost"}) {
    EXPECT_EQ(with(here, ""), "direct") << here;
  }
}

TEST(HttpProxy, IsAskedToConnect) {
  EXPECT_EQ(connect_request({{"p", 1}, "Basic x"}, {"api.example.com", 443}),
            "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n"
            "Proxy-Authorization: Basic x\r\n\r\n");
  EXPECT_TRUE(connected("HTTP/1.1 200 Connection established\r\n\r\n"));
  EXPECT_TRUE(connected("HTTP/1.0 200\r\n\r\n"));
  for (const char* no :
       {"HTTP/1.1 407 Auth\r\n\r\n", "HTTP/1.1 502 x\r\n\r\n", "", "SSH-2.0", "HTTP/1.1 20"}) {
    EXPECT_FALSE(connected(no)) << no;
  }
}

// A password must not get into a message.
TEST(HttpProxy, ErrorsDoNotQuoteTheUrl) {
  const auto proxy = proxy_for(parse_base_url("https://h").value(),
                               [](const char*) { return "socks5://user:secret@p:1"; });
  EXPECT_THAT(proxy.error().message(), testing::Not(testing::HasSubstr("secret")));
}

}  // namespace
}  // namespace verbatim::gateway
