// What a remote server says of itself, as facts.

#include "gateway/upstream_facts.hpp"

#include <gtest/gtest.h>

namespace verbatim::gateway {
namespace {

TEST(UpstreamFacts, MembersAreNamedByTheirPath) {
  const Facts facts =
      facts_in("/v1/models", R"({"data":[{"id":"m","max_model_len":4096,"root":null}],"ok":true})");
  EXPECT_EQ(facts, (Facts{{"/v1/models.data.0.id", "m"},
                          {"/v1/models.data.0.max_model_len", "4096"},
                          {"/v1/models.data.0.root", "null"},
                          {"/v1/models.ok", "true"}}));
}

TEST(UpstreamFacts, WhatDiffersFromAnswerToAnswerIsLeftOut) {
  const auto models = [](const char* created, const char* permission) {
    return facts_in("/v1/models", std::string(R"({"data":[{"id":"m","created":)") + created +
                                      R"(,"permission":[{"id":")" + permission + R"("}]}]})");
  };
  EXPECT_EQ(models("1", "modelperm-a"), models("2", "modelperm-b"));
  EXPECT_EQ(facts_in("/s", R"({"a":1,"internal_states":[{"x":1}]})"), (Facts{{"/s.a", "1"}}));
}

TEST(UpstreamFacts, LongTextsAndWhatIsNoJsonAreTheirDigests) {
  const Facts facts = facts_in("/props", "{\"chat_template\":\"" + std::string(5000, 't') + "\"}");
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts.at("/props.chat_template"), "sha256:" + sha256(std::string(5000, 't')).hex());
  EXPECT_EQ(facts_in("/version", "b1234").at("/version"), "sha256:" + sha256("b1234").hex());
}

TEST(UpstreamFacts, HostileAnswersStayWithinWhatALeafHolds) {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "{\"a\":";
  deep += "1" + std::string(200, '}');
  EXPECT_LE(facts_in("/x", deep).size(), 1u);
  const Facts named = facts_in("/x", "{\"" + std::string(4000, 'n') + "\":\"v\"}");
  EXPECT_LE(named.begin()->first.size(), 128u);
}

TEST(UpstreamFacts, AChangeIsNamed) {
  const Facts before = {{"a", "1"}, {"b", "1"}, {"c", "1"}},
              now = {{"b", "2"}, {"c", "1"}, {"d", "1"}};
  EXPECT_EQ(changed_facts(before, now, 5), (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(changed_facts(before, now, 1), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(changed_facts(now, now, 5).empty());
}

}  // namespace
}  // namespace verbatim::gateway
