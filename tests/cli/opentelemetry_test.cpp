// A record under OpenTelemetry's names: what it says, what it leaves out, and that no leaf makes it throw.

#include "cli/opentelemetry.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbatim {
namespace {

Json request_leaf() {
  return Json::parse(R"({
    "type": "request", "id": "019ad2c5-3f00-7000-8000-000000000001", "time": "2026-11-30T12:00:00.000250Z",
    "route": {"api": "openai.chat", "method": "POST", "target": "/v1/chat/completions", "upstream": "openai"},
    "model": {"requested": "gpt-4o-mini", "level": "claimed"},
    "params": {"temperature": "0.7", "top_p": "1", "seed": "42", "max_tokens": "64", "n": "1", "stream": "true"},
    "client": {"user_agent": "OpenAI/JS 6.1.0",
               "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    "subject": "5f", "tenant": "default"})");
}

Json response_leaf() {
  return Json::parse(R"({
    "type": "response", "status": "complete", "http_status": 200, "cache": "miss", "finish": ["stop"],
    "upstream": {"model": "gpt-4o-mini-2024-07-18", "response_id": "chatcmpl-1", "system_fingerprint": "fp_1",
                 "address": "192.0.2.1"},
    "usage": {"input_tokens": 12, "output_tokens": 5, "cached_input_tokens": 4, "reasoning_tokens": 3},
    "stream": {"events": 7}, "timing": {"first_byte_us": 1500, "total_us": 90000}})");
}

TEST(OpenTelemetry, AnExchangeIsASpanOfTheConventionsNames) {
  EXPECT_EQ(cli::opentelemetry_span(request_leaf(), response_leaf()), OrderedJson::parse(R"({
    "name": "chat gpt-4o-mini", "kind": "CLIENT",
    "trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_span_id": "b7ad6b7169203331",
    "start_time_unix_nano": "1796040000000250000", "end_time_unix_nano": "1796040000090250000",
    "attributes": {
      "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-4o-mini",
      "gen_ai.request.temperature": 0.7, "gen_ai.request.top_p": 1.0,
      "gen_ai.request.max_tokens": 64, "gen_ai.request.seed": 42, "gen_ai.request.stream": true,
      "user_agent.original": "OpenAI/JS 6.1.0",
      "gen_ai.response.model": "gpt-4o-mini-2024-07-18", "gen_ai.response.id": "chatcmpl-1",
      "openai.response.system_fingerprint": "fp_1", "network.peer.address": "192.0.2.1",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 5,
      "gen_ai.usage.cache_read.input_tokens": 4, "gen_ai.usage.reasoning.output_tokens": 3,
      "gen_ai.response.time_to_first_chunk": 0.0015, "http.response.status_code": 200,
      "verbatim.status": "complete", "verbatim.cache": "miss",
      "verbatim.record.id": "019ad2c5-3f00-7000-8000-000000000001"}})"));
}

TEST(OpenTelemetry, GooglesCallsAndEmbeddingsHaveTheirOwnOperations) {
  Json request = request_leaf();
  request["route"]["api"] = "gemini.generate_content";
  request["params"] = {{"candidate_count", "2"}, {"max_output_tokens", "9"}, {"stream", "true"}};
  const OrderedJson gemini = cli::opentelemetry_span(request, Json())["attributes"];
  EXPECT_EQ(gemini["gen_ai.operation.name"], "generate_content");
  EXPECT_EQ(gemini["gen_ai.provider.name"], "gcp.gen_ai");
  EXPECT_EQ(gemini["gen_ai.request.choice.count"], 2);
  EXPECT_EQ(gemini["gen_ai.request.max_tokens"], 9);
  EXPECT_EQ(gemini["gen_ai.request.stream"], true);
  request["route"]["api"] = "openai.embeddings";
  request["params"] = {
      {"dimensions", "256"}, {"encoding_format", "base64"}, {"candidate_count", "1"}};
  const OrderedJson embeddings = cli::opentelemetry_span(request, Json())["attributes"];
  EXPECT_EQ(embeddings["gen_ai.operation.name"], "embeddings");
  EXPECT_EQ(embeddings["gen_ai.embeddings.dimension.count"], 256);
  EXPECT_EQ(embeddings["gen_ai.request.encoding_formats"], OrderedJson::array({"base64"}));
  EXPECT_FALSE(embeddings.contains("gen_ai.request.choice.count"));
  request["route"]["api"] = "gemini.count_tokens";
  EXPECT_FALSE(
      cli::opentelemetry_span(request, Json())["attributes"].contains("gen_ai.operation.name"));
}

TEST(OpenTelemetry, WhatIsNotRecordedIsAbsent) {
  Json request = request_leaf();
  for (const char* member : {"model", "params", "client"}) request.erase(member);
  request["route"]["api"] = "generic";
  const OrderedJson span = cli::opentelemetry_span(request, Json());
  EXPECT_EQ(span, OrderedJson::parse(R"({"name": "exchange", "kind": "CLIENT",
    "start_time_unix_nano": "1796040000000250000",
    "attributes": {"verbatim.record.id": "019ad2c5-3f00-7000-8000-000000000001"}})"));
}

TEST(OpenTelemetry, TheLocalEngineNamesItselfAndAFailureItsKind) {
  Json request = request_leaf(), response = response_leaf();
  request["route"] = {{"api", "anthropic.messages"}, {"upstream", "local"}};
  response["error"] = {{"kind", "internal_error"}, {"message", "a text of the exchange"}};
  response["engine"] = {{"numerics_profile", "f32-k256/1"},
                        {"choices", {{{"logits_digest", "00"}, {"tokens", 3}}}}};
  const OrderedJson attributes = cli::opentelemetry_span(request, response)["attributes"];
  EXPECT_EQ(attributes["gen_ai.provider.name"], "verbatim");
  EXPECT_EQ(attributes["error.type"], "internal_error");
  EXPECT_EQ(attributes["verbatim.engine.numerics_profile"], "f32-k256/1");
  EXPECT_EQ(attributes.dump().find("a text of the exchange"), std::string::npos);
  EXPECT_EQ(attributes.dump().find("logits_digest"), std::string::npos);
}

TEST(OpenTelemetry, NumbersAndTracesThatAreNoneAreLeftOut) {
  Json request = request_leaf();
  request["params"] = {{"temperature", "nan"}, {"top_p", "1e"}, {"seed", "99999999999999999999"},
                       {"max_tokens", "0x10"}, {"n", "3"},      {"stream", "perhaps"}};
  for (const char* trace : {"", "00-", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}) {
    request["client"]["traceparent"] = trace;
    const OrderedJson span = cli::opentelemetry_span(request, Json());
    EXPECT_FALSE(span.contains("trace_id")) << trace;
    const OrderedJson& attributes = span["attributes"];
    EXPECT_EQ(attributes["gen_ai.request.choice.count"], 3);
    for (const char* name : {"temperature", "top_p", "seed", "max_tokens", "stream"})
      EXPECT_FALSE(attributes.contains(std::string("gen_ai.request.") + name)) << name;
  }
}

TEST(OpenTelemetry, NoLeafMakesItThrow) {
  const std::vector<Json> strange = {
      Json(),     Json(3),          Json("text"),
      Json(-1.5), Json::array({1}), Json::array({Json::object()}),
      Json(true), Json::object(),   Json{{"api", 3}, {"requested", {}}}};
  const Json whole_request = request_leaf(), whole_response = response_leaf();
  for (const Json& value : strange) {
    for (const auto& [name, ignored] : whole_request.items()) {
      Json request = whole_request;
      request[name] = value;
      EXPECT_NO_THROW((void)cli::opentelemetry_span(request, whole_response)) << name << value;
    }
    for (const auto& [name, ignored] : whole_response.items()) {
      Json response = whole_response;
      response[name] = value;
      EXPECT_NO_THROW((void)cli::opentelemetry_span(whole_request, response)) << name << value;
    }
    EXPECT_NO_THROW((void)cli::opentelemetry_span(Json::object(), value));
  }
}

}  // namespace
}  // namespace verbatim
