// Each way in which a record can be true or forged gets its own verdict.

#include "audit/dsse.hpp"
#include "audit/signer.hpp"
#include "gateway/local_answer.hpp"
#include "replay/statement.hpp"
#include "tests/replay/recorded_world.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

using gateway::Api;
using replay::Method;
using replay::Verdict;
using replay::VerdictKind;
using test::Exchange;

class Replayer : public testing::Test {
 protected:
  /// "BITWISE", or "DIVERGED token at 3" and so on.
  static std::string in_words(const Verdict& verdict) {
    std::string words(replay::verdict_name(verdict.kind));
    if (!verdict.reason.empty()) words += " " + verdict.reason;
    if (verdict.position) words += " at " + std::to_string(*verdict.position);
    return words;
  }
  std::string verdict_of(const std::function<void(Exchange&)>& forge) {
    return in_words(world_.replay(world_.chat("What is a Merkle tree?", forge)));
  }

  const std::filesystem::path folder_ = test::fresh_dir();
  test::RecordedWorld world_{folder_};
};

TEST_F(Replayer, AnHonestGreedyAnswerIsBitwiseByBothMethods) {
  const Uuid id = world_.chat("What is a Merkle tree?");
  EXPECT_EQ(in_words(world_.replay(id, Method::score)), "BITWISE");
  EXPECT_EQ(in_words(world_.replay(id, Method::decode)), "BITWISE");
}

TEST_F(Replayer, AnAnswerIsComputedAgainUnderTheProfileThatItsRecordNames) {
  local_engine::EngineOptions options;
  options.profile = "mma-hopper/1";
  world_.recorder = local_engine::Engine::load(test::RecordedWorld::model_path(), options).value();
  const Uuid id = world_.chat("What is a Merkle tree?");
  for (const Method method : {Method::score, Method::decode}) {
    const Verdict verdict = world_.replay(id, method);
    EXPECT_EQ(in_words(verdict), "BITWISE");
    EXPECT_EQ(verdict.engine->profile, "mma-hopper/1");
  }
  const std::string forged =
      verdict_of([](Exchange& e) { e.response["engine"]["numerics_profile"] = "f32-k256/1"; });
  EXPECT_EQ(forged.substr(0, 8), "DIVERGED");
}

TEST_F(Replayer, HonestAnswersOfEveryApiAndParameterAreBitwise) {
  const std::pair<Api, const char*> requests[] = {
      {Api::openai_chat,
       R"({"model":"demo","messages":[{"role":"user","content":"Tell me a story."}],"temperature":0.9,"seed":3,"n":3,"max_tokens":40})"},
      {Api::openai_chat,
       R"({"model":"demo","messages":[{"role":"user","content":"Who are you?"}],"top_p":0.9,"top_k":20,"max_tokens":40,"logit_bias":{"5":-100},"frequency_penalty":0.5})"},
      {Api::openai_chat,
       R"({"model":"demo","messages":[{"role":"user","content":"What is a log?"}],"temperature":0,"stop":["log","."],"max_tokens":60})"},
      {Api::openai_completions,
       R"({"model":"demo","prompt":["The log","A checkpoint"],"n":2,"echo":true,"seed":11,"max_tokens":12})"},
      {Api::openai_completions,
       R"({"model":"demo","prompt":"The log","temperature":0,"max_tokens":90,"ignore_eos":true})"},
      {Api::anthropic_messages,
       R"({"model":"demo","messages":[{"role":"user","content":"Hello"}],"max_tokens":30,"system":"Be brief."})"},
  };
  for (const auto& [api, body] : requests) {
    EXPECT_EQ(in_words(world_.replay(world_.record(api, world_.answer(api, body)))), "BITWISE")
        << body;
  }
}

TEST_F(Replayer, ATokenThatTheModelDidNotChooseIsFoundWhereItStands) {
  const Uuid id = world_.chat("What is a Merkle tree?", [](Exchange& exchange) {
    Json& output = exchange.tokens["choices"][0]["output_ids"];
    output[5] = output[5].get<int>() == 300 ? 301 : 300;
  });
  const Verdict verdict = world_.replay(id);
  EXPECT_EQ(in_words(verdict), "DIVERGED token at 5");
  EXPECT_EQ(verdict.expected, 300);
  EXPECT_NE(verdict.got, 300);
  EXPECT_GT(*verdict.deficit, 0.0F);
  EXPECT_GT(*verdict.character, 0U);
}

TEST_F(Replayer, AnotherDigestOfEqualTokensIsDivergedAtTheFirstRowThatDiffers) {
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              exchange.tokens["choices"][0]["logits_digest"] = std::string(64, '0');
              exchange.tokens["choices"][0]["row_digest8"][7] = "0000000000000000";
            }),
            "DIVERGED logits at 7");
}

TEST_F(Replayer, WithoutADigestTheBestIsTokenExact) {
  EXPECT_EQ(
      verdict_of([](Exchange& exchange) { exchange.tokens["choices"][0].erase("logits_digest"); }),
      "TOKEN_EXACT");
}

TEST_F(Replayer, ADigestInTheLeafOfAnEarlierVersionCounts) {
  const auto with_digest = [](std::optional<std::string> digest) {
    return [digest](Exchange& exchange) {
      Json& recorded = exchange.tokens["choices"][0];
      exchange.response["engine"]["choices"][0]["logits_digest"] =
          digest.value_or(recorded["logits_digest"].get<std::string>());
      recorded.erase("logits_digest");
    };
  };
  EXPECT_EQ(verdict_of(with_digest({})), "BITWISE");
  EXPECT_EQ(verdict_of(with_digest(std::string(64, '0'))).substr(0, 8), "DIVERGED");
}

TEST_F(Replayer, RowsThatAreNotTheEnginesContradictTheRecordWhateverItsDigestSays) {
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              exchange.tokens["choices"][0]["row_digest8"][7] = "0000000000000000";
            }),
            "DIVERGED logits at 7");
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              exchange.tokens["choices"][0].erase("logits_digest");
              for (Json& row : exchange.tokens["choices"][0]["row_digest8"])
                row = std::string(16, '0');
            }),
            "DIVERGED logits at 0");
}

TEST_F(Replayer, AVerdictsLeafTellsWhichOfSeveralChoicesStandsForTheRecord) {
  const Exchange exchange = world_.answer(
      Api::openai_chat,
      R"({"model":"demo","messages":[{"role":"user","content":"Tell me a story."}],"temperature":0.9,"seed":3,"n":4,"max_tokens":40})");
  Verdict verdict = world_.replay(world_.record(Api::openai_chat, exchange));
  EXPECT_EQ(verdict.choices, 4U);
  verdict.choice = 3;
  const Verdict again = replay::verdict_of_leaf(replay::verdict_fields(verdict)).value();
  EXPECT_EQ(again.choice, 3U);
  EXPECT_EQ(again.choices, 4U);
  EXPECT_EQ(replay::verdict_fields(again), replay::verdict_fields(verdict));
}

TEST_F(Replayer, ACutAnswerIsDiverged) {
  // Its digest is over all rows, its tokens are fewer: the rows that are there agree.
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              Json& choice = exchange.tokens["choices"][0];
              choice["output_ids"].erase(choice["output_ids"].size() - 1);
              choice["row_digest8"].erase(choice["row_digest8"].size() - 1);
            }).substr(0, 15),
            "DIVERGED logits");
}

TEST_F(Replayer, AnAnswerThatNothingEndedIsDiverged) {
  // An operator with the key keeps the beginning of an answer, with digests as if that were all.
  const auto cut = [&](std::uint32_t tokens, const std::string& finish) {
    const auto asked = [](std::uint32_t tokens_max) {
      return Json{{"model", "demo"},
                  {"temperature", 0},
                  {"max_tokens", tokens_max},
                  {"messages", Json::array({{{"role", "user"}, {"content", "Who are you?"}}})}}
          .dump();
    };
    Exchange exchange = world_.answer(Api::openai_chat, asked(tokens));
    exchange.request_body = asked(200);
    const std::string said = R"("finish_reason":"length")";
    exchange.response_body.replace(exchange.response_body.find(said), said.size(),
                                   R"("finish_reason":")" + finish + '"');
    exchange.tokens["choices"][0]["finish"] = finish;
    return in_words(world_.replay(world_.record(Api::openai_chat, exchange)));
  };
  EXPECT_EQ(cut(12, "length"), "DIVERGED length");
  EXPECT_EQ(cut(12, "stop"), "DIVERGED length");
  // Nothing of it at all.
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              exchange.tokens["choices"][0]["output_ids"] = Json::array();
              exchange.tokens["choices"][0]["row_digest8"] = Json::array();
              exchange.tokens["choices"][0]["logits_digest"] = sha256("").hex();
              const std::size_t from = exchange.response_body.find(R"("content":")") + 11;
              exchange.response_body.erase(from, exchange.response_body.find('"', from) - from);
            }),
            "DIVERGED length");
}

TEST_F(Replayer, AnAnswerThatSaysMoreThanItsTokensIsDiverged) {
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"tool_calls", Json::array({{{"id", "1"}, {"function", {{"name", "wire_money"}}}}})},
           {"refusal", "I refuse."},
           {"reasoning_content", "Let me see."}}) {
    const Uuid id = world_.chat("Who are you?", [&, member = name, said = value](Exchange& e) {
      Json body = Json::parse(e.response_body);
      body["choices"][0]["message"][member] = said;
      e.response_body = body.dump();
    });
    const Verdict verdict = world_.replay(id);
    EXPECT_EQ(in_words(verdict), "DIVERGED text") << name;
    EXPECT_NE(verdict.detail.find(name), std::string::npos) << verdict.detail;
  }
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              Json body = Json::parse(exchange.response_body);
              body["choices"][0]["text"] = "Another answer.";
              exchange.response_body = body.dump();
            }),
            "DIVERGED text");
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              const std::string said = R"("finish_reason":"stop")";
              exchange.response_body.replace(exchange.response_body.find(said), said.size(),
                                             R"("finish_reason":"tool_calls")");
            }),
            "DIVERGED text");
}

TEST_F(Replayer, AStreamHasNoBlockThatIsPassedOver) {
  const auto streamed = [&](std::string_view inserted, std::size_t event) {
    Exchange exchange = world_.answer(
        Api::openai_chat,
        R"({"model":"demo","messages":[{"role":"user","content":"Who are you?"}],"temperature":0,"max_tokens":5,"stream":true})");
    std::size_t at = 0;
    while (event-- > 0) at = exchange.response_body.find("\n\n", at) + 2;
    exchange.response_body.insert(at, inserted);
    return in_words(world_.replay(world_.record(Api::openai_chat, exchange)));
  };
  EXPECT_EQ(streamed("", 0), "BITWISE");
  // A block that begins with a comment is an event like any, for whoever reads it.
  const std::string evil = R"(data: {"choices":[{"index":0,"delta":{"content":"All is well."}}]})"
                           "\n\n";
  for (const char* comment : {": x\n", ":\n", ": x\r\n\r\n", ": x\r"}) {
    for (const std::size_t place : {0, 1, 3}) {
      EXPECT_EQ(streamed(comment + evil, place), "DIVERGED text") << comment << place;
    }
  }
  EXPECT_EQ(streamed(": x\n\n", 1), "DIVERGED text");
}

TEST_F(Replayer, WhoAnsweredIsWhatTheBodySays) {
  for (const char* member : {"model", "response_id", "system_fingerprint"}) {
    EXPECT_EQ(
        verdict_of([&](Exchange& exchange) { exchange.response["upstream"][member] = "gpt-5"; }),
        "DIVERGED text")
        << member;
  }
}

TEST_F(Replayer, WhatTheRequestsLeafSaysIsWhatWasAsked) {
  const auto saying = [&](Json members) {
    return verdict_of([&](Exchange& exchange) { exchange.request = std::move(members); });
  };
  EXPECT_EQ(saying({{"params", {{"temperature", "0"}}}}), "DIVERGED prompt");  // not all
  EXPECT_EQ(saying({{"params", "none"}}), "DIVERGED prompt");
  EXPECT_EQ(saying({{"model", {{"requested", "demo"}, {"level", "claimed"}}}}), "DIVERGED prompt");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.response["cache"] = "hit"; }), "DIVERGED text");
}

TEST_F(Replayer, WhatIsRecordedBesideTheTokensAgreesWithThem) {
  EXPECT_EQ(verdict_of([](Exchange& e) {
              e.tokens["choices"][0]["row_digest8"].push_back("0000000000000000");
            }),
            "NOT_REPLAYABLE malformed_record");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.tokens["choices"][0]["finish"] = "tool_calls"; }),
            "DIVERGED text");
}

TEST_F(Replayer, AnotherVersionsBytesAreNoEdit) {
  const auto reworded = [](std::optional<int> format) {
    return [format](Exchange& exchange) {
      Json& engine = exchange.response["engine"];
      engine["answer_format"] = format ? Json(*format) : Json();
      exchange.response_body.insert(1, " ");
    };
  };
  EXPECT_EQ(verdict_of(reworded(gateway::kAnswerFormat)), "DIVERGED text");
  EXPECT_EQ(verdict_of(reworded(gateway::kAnswerFormat + 1)), "NOT_REPLAYABLE writer_differs");
  EXPECT_EQ(verdict_of(reworded({})), "NOT_REPLAYABLE writer_differs");
  // The same bytes are the same, whoever wrote them.
  EXPECT_EQ(verdict_of([](Exchange& e) {
              e.response["engine"]["answer_format"] = gateway::kAnswerFormat + 1;
            }),
            "BITWISE");
}

TEST_F(Replayer, AnEditedWordInTheAnswerThatWentOutIsFound) {
  const Uuid id = world_.chat("What is a Merkle tree?", [](Exchange& exchange) {
    const std::size_t at = exchange.response_body.find("tree of hashes");
    ASSERT_NE(at, std::string::npos);
    exchange.response_body.replace(at, 4, "list");
  });
  const Verdict verdict = world_.replay(id);
  EXPECT_EQ(in_words(verdict), "DIVERGED text");
  EXPECT_EQ(verdict.character, std::string("A Merkle tree is a ").size());
}

TEST_F(Replayer, AnEditedQuestionIsFoundThoughTheTokensAreTrue) {
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              const std::size_t at = exchange.request_body.find("Merkle");
              exchange.request_body.replace(at, 6, "family");
            }),
            "DIVERGED prompt");
}

TEST_F(Replayer, AnotherTemperatureOrSeedThanAskedForIsFound) {
  EXPECT_EQ(verdict_of([](Exchange& exchange) {
              const std::size_t at = exchange.request_body.find("\"temperature\":0");
              exchange.request_body.replace(at, 15, "\"temperature\":1");
            }),
            "DIVERGED prompt");
  const auto seeded =
      R"({"model":"demo","messages":[{"role":"user","content":"Tell me a story."}],"seed":3,"max_tokens":40})";
  Exchange exchange = world_.answer(Api::openai_chat, seeded);
  exchange.tokens["choices"][0]["sampling"]["seed"] = "4";
  const Verdict verdict = world_.replay(world_.record(Api::openai_chat, exchange));
  EXPECT_EQ(verdict.kind, VerdictKind::diverged);
  EXPECT_EQ(verdict.reason, "token");
}

TEST_F(Replayer, ATimeThatIsNotTheRequestsIsFound) {
  EXPECT_EQ(verdict_of(
                [](Exchange& exchange) { exchange.tokens["now"] = "2020-01-01T00:00:00.000000Z"; }),
            "DIVERGED prompt");
}

TEST_F(Replayer, ACacheHitIsReplayedThroughItsOrigin) {
  std::string served;
  const Uuid origin = world_.chat("Who are you?", [&](Exchange& e) { served = e.response_body; });
  const auto hit_saying = [&](const std::string& body) {
    return [origin, body](Exchange& exchange) {
      exchange.tokens = nullptr;
      exchange.response_body = body;
      exchange.response = {{"status", "cache_hit"},
                           {"http_status", 200},
                           {"cache", "hit"},
                           {"origin", origin.str()}};
    };
  };
  const auto hit = hit_saying(served);
  const Verdict verdict = world_.replay(world_.chat("Who are you?", hit));
  EXPECT_EQ(in_words(verdict), "BITWISE");
  EXPECT_EQ(verdict.origin, origin);
  // Its leaf says what its body does.
  const auto saying = [&](const char* member, const Json& value) {
    return in_words(world_.replay(world_.chat("Who are you?", [&](Exchange& e) {
      hit(e);
      e.response[member] = value;
    })));
  };
  const Json usage = Json::parse(served)["usage"];
  EXPECT_EQ(saying("usage", {{"input_tokens", usage["prompt_tokens"]},
                             {"output_tokens", usage["completion_tokens"]},
                             {"total_tokens", usage["total_tokens"]}}),
            "BITWISE");
  EXPECT_EQ(saying("usage", {{"output_tokens", 9999}}), "DIVERGED text");
  EXPECT_EQ(saying("finish", Json::array({"tool_calls"})), "DIVERGED text");
  EXPECT_EQ(saying("http_status", 500), "DIVERGED text");
  EXPECT_EQ(saying("cache", "miss"), "DIVERGED text");
  EXPECT_EQ(saying("engine", {{"weights_sha256", "00"}}), "DIVERGED text");
  // A hit that answers another question than its origin's is none.
  EXPECT_EQ(in_words(world_.replay(world_.chat("What is a Merkle tree?", hit))), "DIVERGED prompt");
  // The cache gives its origin's bytes: the same text in others is no hit of it.
  Json other = Json::parse(served);
  other["model"] = "another";
  const Uuid forged = world_.chat("Who are you?", hit_saying(other.dump()));
  EXPECT_EQ(in_words(world_.replay(forged)), "DIVERGED text");
}

TEST_F(Replayer, AllThatWentOutIsWhatTheTokensMake) {
  const auto body_with = [](const std::function<void(Json&)>& edit) {
    return [edit](Exchange& e) {
      Json body = Json::parse(e.response_body);
      edit(body);
      e.response_body = body.dump();
    };
  };
  const std::function<void(Exchange&)> forgeries[] = {
      body_with([](Json& body) { body["choices"][0]["message"]["answer"] = "No."; }),
      body_with([](Json& body) { body["output_text"] = "No."; }),
      body_with([](Json& body) { body["usage"]["completion_tokens"] = 9999; }),
      body_with([](Json& body) { body["system_fingerprint"] = "fp_0"; }),
      body_with([](Json& body) { body["created"] = 17; }),
      body_with([](Json& body) { body["id"] = "chatcmpl-another"; }),
      [](Exchange& e) { e.response_body = " " + e.response_body; },
      [](Exchange& e) { e.response["usage"]["output_tokens"] = 9999; },
      [](Exchange& e) { e.response["http_status"] = 500; },
      [](Exchange& e) { e.response["finish"] = Json::array({"length"}); },
      [](Exchange& e) { e.response["engine"]["choices"][0]["tokens"] = 3; },
      [](Exchange& e) {
        e.response["response_body"] = {{"bytes", 100'000}, {"recorded", 510}};
      },
  };
  for (const auto& forge : forgeries) EXPECT_EQ(verdict_of(forge), "DIVERGED text");
}

TEST_F(Replayer, AnAnswerIsCutBeforeTheFirstStopSequenceAndNowhereElse) {
  // "A Merkle tree is a tree of hashes: each leaf is the hash of an entry, ..."
  const auto verdict = [&](const std::string& until) {
    return verdict_of([&](Exchange& e) {
      Json asked = Json::parse(e.request_body), body = Json::parse(e.response_body);
      asked["stop"] = "hash";
      std::string& said = body["choices"][0]["message"]["content"].get_ref<std::string&>();
      if (!until.empty()) said.resize(said.find(until));
      e.request_body = asked.dump();
      e.response_body = body.dump();
    });
  };
  for (const char* until : {"", "hash of an", " tree of"}) {
    EXPECT_EQ(verdict(until), "DIVERGED text") << until;
  }
}

TEST_F(Replayer, LogProbabilitiesThatWentOutAreTheEngines) {
  const std::string asked =
      R"({"model":"demo","temperature":0,"max_tokens":8,"logprobs":true,"top_logprobs":2,"messages":[{"role":"user","content":"Who are you?"}]})";
  Exchange honest = world_.answer(Api::openai_chat, asked);
  EXPECT_EQ(in_words(world_.replay(world_.record(Api::openai_chat, honest))), "BITWISE");
  Exchange edited = world_.answer(Api::openai_chat, asked);
  const std::size_t at = edited.response_body.find("\"logprob\":-");
  ASSERT_NE(at, std::string::npos);
  edited.response_body[at + 11] = ' ';  // the sign
  EXPECT_EQ(in_words(world_.replay(world_.record(Api::openai_chat, edited))), "DIVERGED text");
}

TEST_F(Replayer, WhatCannotBeComputedSaysWhy) {
  EXPECT_EQ(in_words(world_.replay(world_.open_request())), "NOT_REPLAYABLE open");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.response["status"] = "client_disconnect"; }),
            "NOT_REPLAYABLE status");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.response.erase("engine"); }),
            "NOT_REPLAYABLE no_output");
  EXPECT_EQ(verdict_of([](Exchange& e) {
              e.response.erase("engine");
              e.upstream = "openai";
            }),
            "NOT_REPLAYABLE remote");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.tokens = nullptr; }), "NOT_REPLAYABLE no_tokens");
  EXPECT_EQ(verdict_of(
                [](Exchange& e) { e.response["engine"]["weights_sha256"] = std::string(64, 'a'); }),
            "NOT_REPLAYABLE weights_differ");
  EXPECT_EQ(
      verdict_of([](Exchange& e) { e.response["engine"]["numerics_profile"] = "mma-ampere/1"; }),
      "NOT_REPLAYABLE profile_differs");
  world_.places.clear();
  EXPECT_EQ(verdict_of({}), "NOT_REPLAYABLE weights_missing");
}

TEST_F(Replayer, MalformedTokensNeverStopTheRun) {
  const std::function<void(Exchange&)> forgeries[] = {
      [](Exchange& e) { e.tokens = "text"; },
      [](Exchange& e) { e.tokens["choices"] = Json::array(); },
      [](Exchange& e) { e.tokens["choices"][0] = 7; },
      [](Exchange& e) { e.tokens["choices"][0].erase("prompt_ids"); },
      [](Exchange& e) { e.tokens["choices"][0]["prompt_ids"] = Json::array(); },
      [](Exchange& e) { e.tokens["choices"][0]["prompt_ids"][0] = -1; },
      [](Exchange& e) { e.tokens["choices"][0]["prompt_ids"][0] = 2'000'000'000; },
      [](Exchange& e) { e.tokens["choices"][0]["output_ids"][0] = 99'999; },
      [](Exchange& e) { e.tokens["choices"][0]["output_ids"] = std::vector<int>(5'000, 5); },
      [](Exchange& e) { e.tokens["choices"][0]["sampling"]["seed"] = "-1"; },
      [](Exchange& e) { e.tokens["choices"][0]["sampling"]["temperature"] = 1; },
      [](Exchange& e) { e.tokens["choices"][0]["sampling"]["temperature"] = "nan"; },
      [](Exchange& e) { e.tokens["choices"][0]["sampling"]["top_p"] = "inf"; },
      [](Exchange& e) {
        e.tokens["choices"][0]["sampling"]["logit_bias"] = {{"x", "1"}};
      },
      [](Exchange& e) { e.tokens.erase("now"); },
  };
  for (std::size_t i = 0; i < std::size(forgeries); ++i) {
    EXPECT_EQ(verdict_of(forgeries[i]), "NOT_REPLAYABLE malformed_record") << "forgery " << i;
  }
}

TEST_F(Replayer, AnAnswerThatIsNoneIsNotTheTextOfItsTokens) {
  for (const char* body :
       {R"({"choices":3})", R"({"choices":"x"})", R"({"choices":{"0":{}}})", R"({"choices":[7]})",
        R"({"choices":[]})", R"({"choices":[{"message":[]}]})", R"({"choices":[{"index":1}]})",
        R"([])", "", "data: {\"choices\":7}\n\n", "data: {\"choices\":[{\"delta\":3}]}\n\n"}) {
    EXPECT_EQ(verdict_of([&](Exchange& e) { e.response_body = body; }), "DIVERGED text") << body;
  }
}

TEST_F(Replayer, AChoiceThatIsToldTwiceIsNoAnswer) {
  Exchange exchange = world_.answer(
      Api::openai_completions,
      R"({"model":"demo","prompt":["The log","Who"],"temperature":0,"max_tokens":5})");
  Json body = Json::parse(exchange.response_body);
  body["choices"][1]["index"] = 0;
  exchange.response_body = body.dump();
  EXPECT_EQ(in_words(world_.replay(world_.record(Api::openai_completions, exchange))),
            "DIVERGED text");
}

TEST_F(Replayer, DigestsThatAreNoListAreNone) {
  EXPECT_EQ(verdict_of([](Exchange& e) {
              e.response["engine"]["choices"] = {{"0", "x"}};
              e.tokens["choices"][0].erase("logits_digest");
            }),
            "TOKEN_EXACT");
}

TEST_F(Replayer, WhatOfAModelChangedIsNamedIfTheLogTellsOfParts) {
  const auto record_model = [&](const char* changed) {
    const local_engine::Fingerprint& print = world_.engine()->fingerprint();
    const replay::ModelParts parts = replay::parts_of(print);
    audit::LeafDraft model;
    model.type = "model";
    model.fields = {{"name", "demo"},
                    {"weights_sha256", std::string(64, 'b')},
                    {"tensors_sha256", parts.tensors},
                    {"config_sha256", parts.config},
                    {"tokenizer_sha256", parts.tokenizer},
                    {"chat_template_sha256", parts.chat_template}};
    for (const char* name : {changed, "weights_sha256"}) model.fields[name] = std::string(64, 'b');
    (void)world_.log().append_and_wait(std::move(model)).value();
  };
  const auto verdict = [&] {
    return verdict_of(
        [](Exchange& e) { e.response["engine"]["weights_sha256"] = std::string(64, 'b'); });
  };
  EXPECT_EQ(verdict(), "NOT_REPLAYABLE weights_differ");  // the log of an earlier version
  const std::pair<const char*, const char*> cases[] = {
      {"tensors_sha256", "NOT_REPLAYABLE weights_differ"},
      {"config_sha256", "NOT_REPLAYABLE config_differs"},
      {"tokenizer_sha256", "NOT_REPLAYABLE tokenizer_differs"},
      {"chat_template_sha256", "NOT_REPLAYABLE template_differs"}};
  for (const auto& [part, words] : cases) {
    record_model(part);
    EXPECT_EQ(verdict(), words);
  }
}

TEST_F(Replayer, WeightsThatDoNotLoadSayWhy) {
  const std::pair<Errc, const char*> cases[] = {
      {Errc::unsupported, "NOT_REPLAYABLE unsupported"},
      {Errc::storage_failed, "NOT_REPLAYABLE weights_unreadable"},
  };
  for (const auto& [code, words] : cases) {
    world_.loader = [code = code](const auto&, const auto&) {
      return Result<std::shared_ptr<local_engine::Engine>>(Error{code, "no", "", ""});
    };
    EXPECT_EQ(verdict_of({}), words);
  }
}

TEST_F(Replayer, TheRecordersEnvironmentIsComparedWithTheOneHere) {
  audit::LeafDraft draft;
  draft.type = "environment";
  draft.fields = {{"cpu", "another"}, {"kernel", "Linux 1"}};
  const std::uint64_t index = world_.log().append_and_wait(std::move(draft)).value().index;
  const auto recorded_there = [&](Exchange& exchange) { exchange.environment = index; };
  Verdict verdict = world_.replay(world_.chat("Who are you?", recorded_there));
  EXPECT_EQ(verdict.environment, index);
  EXPECT_EQ(verdict.environment_differs, (std::vector<std::string>{"cpu", "kernel"}));
  world_.environment = {{"cpu", "another"}, {"kernel", "Linux 1"}};
  verdict = world_.replay(world_.chat("Who are you?", recorded_there));
  EXPECT_TRUE(verdict.environment_differs.empty());
  EXPECT_EQ(in_words(verdict), "BITWISE");
}

TEST_F(Replayer, EveryTokenIsTracedAndItsMarginCounted) {
  const Verdict verdict = world_.replay(world_.chat("Who are you?"));
  ASSERT_EQ(verdict.trace.size(), verdict.tokens);
  std::uint64_t counted = 0;
  for (const std::uint64_t count : verdict.margins.counts()) counted += count;
  EXPECT_EQ(counted, verdict.tokens);
  for (const auto& token : verdict.trace) EXPECT_TRUE(token.chosen);
  EXPECT_EQ(replay::verdict_fields(verdict)["margins"].size(), replay::MarginCounts::kClasses);
}

TEST_F(Replayer, TheStatementNamesTheLeafAndVerifiesWithTheLogsKey) {
  const Verdict verdict = world_.replay(world_.chat("Who are you?"));
  const auto reader = world_.reader();
  const std::string bundle =
      replay::signed_statement(*reader, verdict, *audit::load_log_key(folder_).value()).value();
  const auto key = audit::parse_vkey(reader->vkey()).value();
  const Json statement = Json::parse(audit::open_statement(bundle, key).value());
  const std::string leaf = reader->leaf(*verdict.response_index)->bytes;
  const std::uint8_t zero = 0;
  EXPECT_EQ(statement["subject"][0]["digest"]["sha256"],
            sha256({Bytes(&zero, 1), as_bytes(leaf)}).hex());
  EXPECT_EQ(statement["predicate"]["result"], "PASSED");
  EXPECT_EQ(statement["predicate"]["passedTests"], Json::array({"BITWISE"}));
}

TEST_F(Replayer, ASecondRunGivesTheSameBytes) {
  const Uuid id = world_.chat("Who are you?");
  const auto reader = world_.reader();
  EXPECT_EQ(replay::statement(*reader, world_.replay(id)).value(),
            replay::statement(*reader, world_.replay(id)).value());
}

}  // namespace
}  // namespace verbatim
