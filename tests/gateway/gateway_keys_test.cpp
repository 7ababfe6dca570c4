// Keys of the gateway: what is stored of them, and what each may do.

#include "gateway/gateway_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbatim::gateway {
namespace {

class Keys : public testing::Test {
 protected:
  GatewayKey key(const NewKey& made) {
    GatewayKey key;
    key.name = "ci";
    key.hash = made.hash;
    return key;
  }
  /// "" if let in (and let go again), else the refusal's kind.
  std::string ask(const std::string& credential, const std::string& model = "m") {
    auto verdict = ring_.admit(credential, true, model);
    const auto* refusal = std::get_if<KeyRing::Refusal>(&verdict);
    return refusal == nullptr ? "" : std::to_string(refusal->http_status) + " " + refusal->kind;
  }

  ManualClock clock_{1'800'000'000'000'000};
  KeyRing ring_{clock_};
  NewKey made_ = make_gateway_key();
};

TEST_F(Keys, OnlyTheHashIsStoredAndOnlyTheKeyMatchesIt) {
  EXPECT_THAT(made_.key, testing::MatchesRegex("vb-[0-9a-f]{8}-[0-9a-f]{40}"));
  EXPECT_EQ(made_.hash.str().find(made_.key.substr(12)), std::string::npos);
  EXPECT_EQ(parse_key_hash(made_.hash.str()).value().str(), made_.hash.str());
  EXPECT_NE(make_gateway_key().key, made_.key);
  ring_.replace({key(made_)});
  EXPECT_EQ(ask(made_.key), "");
  EXPECT_EQ(ask(""), "401 missing_key");
  std::string other = made_.key;
  other.back() = other.back() == '0' ? '1' : '0';
  for (const std::string& wrong : {other, made_.key + "0", made_.key.substr(0, 11),
                                   std::string("vb-"), std::string("sk-1"), made_.hash.str()}) {
    EXPECT_EQ(ask(wrong), "401 unknown_key") << wrong;
  }
}

TEST_F(Keys, HashesOfAnotherFormAreRefused) {
  const std::string good = made_.hash.str();
  for (const std::string& bad : {std::string(), std::string("vb1:"), good + "0", good.substr(1),
                                 "vb2" + good.substr(3), "vb1:ABCDEF01" + good.substr(12)}) {
    EXPECT_FALSE(parse_key_hash(bad)) << bad;
  }
}

TEST_F(Keys, AKeyIsForItsModelsUntilItExpires) {
  GatewayKey limited = key(made_);
  limited.models = {"gpt-5", "claude-*"};
  limited.expires_us = clock_.now_us() + 10;
  ring_.replace({limited});
  EXPECT_EQ(ask(made_.key, "gpt-5"), "");
  EXPECT_EQ(ask(made_.key, "claude-x"), "");
  EXPECT_EQ(ask(made_.key, "gpt-5-large"), "403 model_not_allowed");
  EXPECT_EQ(ask(made_.key, ""), "403 model_not_allowed");
  EXPECT_TRUE(std::holds_alternative<KeyRing::Admission>(ring_.admit(made_.key, false, "")));
  clock_.advance_us(10);
  EXPECT_EQ(ask(made_.key, "gpt-5"), "401 expired_key");
}

TEST_F(Keys, RatesRefillAndRefusalsSayWhen) {
  GatewayKey limited = key(made_);
  limited.requests_per_minute = 2;
  ring_.replace({limited});
  EXPECT_EQ(ask(made_.key), "");
  EXPECT_EQ(ask(made_.key), "");
  const auto refused = ring_.admit(made_.key, true, "m");
  ASSERT_TRUE(std::holds_alternative<KeyRing::Refusal>(refused));
  EXPECT_EQ(std::get<KeyRing::Refusal>(refused).retry_after_s, 30u);
  ring_.replace({limited});  // a reload gives nothing back
  EXPECT_EQ(ask(made_.key), "429 rate_limit");
  clock_.advance_us(30'000'000);
  EXPECT_EQ(ask(made_.key), "");
  EXPECT_EQ(ask(made_.key), "429 rate_limit");
}

TEST_F(Keys, RequestsUnderWayAreCountedUntilTheyEnd) {
  GatewayKey limited = key(made_);
  limited.concurrent_max = 1;
  ring_.replace({limited});
  {
    const auto running = ring_.admit(made_.key, true, "m");
    ASSERT_TRUE(std::holds_alternative<KeyRing::Admission>(running));
    EXPECT_EQ(ask(made_.key), "429 concurrency_limit");
    ring_.replace({});  // a key that is taken away still ends what it began
  }
  ring_.replace({limited});
  EXPECT_EQ(ask(made_.key), "");
}

}  // namespace
}  // namespace verbatim::gateway
