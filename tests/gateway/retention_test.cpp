// Which retention class a request gets.

#include "gateway/config.hpp"

#include <gtest/gtest.h>

namespace verbatim::gateway {
namespace {

std::string class_of(const GatewayConfig& config, const std::string& target,
                     const std::string& upstream = "openai") {
  RequestHead head;
  head.method = "POST";
  head.target = target;
  const auto* retention = retention_for(config.retention, head, upstream);
  return retention == nullptr ? "" : retention->name + "/" + std::to_string(retention->days);
}

constexpr const char* kRules = R"(
[[retention]]
name = "short"
path = "/v1/files*"
minimum_days = 10
basis = "policy"
[[retention]]
name = "long"
path = "/v1/*"
upstream = "openai"
minimum_days = 3650
basis = "law"
)";

TEST(Retention, TheFirstRuleThatFitsDecides) {
  const auto config = parse_config(kRules, "test").value();
  EXPECT_EQ(class_of(config, "/v1/files/7?x=1"), "short/10");
  EXPECT_EQ(class_of(config, "/v1/chat/completions"), "long/3650");
  EXPECT_EQ(class_of(config, "/v1/chat/completions", "other"), "");
  EXPECT_EQ(class_of(config, "/else"), "");
  EXPECT_EQ(class_of(GatewayConfig(), "/v1/files"), "");
}

TEST(Retention, HowAPathIsWrittenGetsNoShorterPeriod) {
  const auto config = parse_config(kRules, "test").value();
  EXPECT_EQ(class_of(config, "/v1/files/../chat/completions"), "long/3650");
  EXPECT_EQ(class_of(config, "/v1/files/%2e%2e/chat"), "long/3650");
  EXPECT_EQ(class_of(config, "http://elsewhere/v1/files"), "long/3650");
}

TEST(Retention, TheEffectiveConfigurationNamesTheClasses) {
  const Json described = parse_json(describe_config(parse_config(kRules, "test").value())).value();
  EXPECT_EQ(described.at("retention").at(1).at("basis"), "law");
  EXPECT_EQ(described.at("retention").at(1).at("minimum_days"), 3650);
}

TEST(Retention, WhatIsNoClassIsRefused) {
  const char* const twice =
      "[[retention]]\nname = \"a\"\nminimum_days = 1\nbasis = \"b\"\n"
      "[[retention]]\nname = \"a\"\nminimum_days = 2\nbasis = \"b\"";
  for (const char* text :
       {"[[retention]]\nname = \"a\"\nminimum_days = 0\nbasis = \"b\"",
        "[[retention]]\nname = \"a\"\nminimum_days = 36526\nbasis = \"b\"",
        "[[retention]]\nname = \"a\"\nminimum_days = 1",
        "[[retention]]\nname = \"A b\"\nminimum_days = 1\nbasis = \"b\"",
        "[[retention]]\nname = \"a\"\nminimum_days = 1\nbasis = \"b\"\npath = \"v1\"", twice}) {
    EXPECT_EQ(parse_config(text, "test").error().code, Errc::invalid_input) << text;
  }
}

}  // namespace
}  // namespace verbatim::gateway
