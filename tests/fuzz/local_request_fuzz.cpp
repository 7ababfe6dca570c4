// Requests to a local model: refused by name, or a question that the engine can be asked.

#include "gateway/json_scan.hpp"
#include "gateway/local_request.hpp"
#include "tests/fuzz/scratch.hpp"
#include "tests/support/tiny_model.hpp"

#include <cmath>

namespace verbatim::fuzz {

namespace {

using namespace gateway;
using local_engine::Engine;

const Engine& engine() {
  static const std::shared_ptr<Engine> kEngine = [] {
    const auto folder = scratch() / "engine";
    std::filesystem::create_directories(folder);
    test::TinyModel model;
    model.layers = 1;
    model.context = 256;
    test::write_tiny_model(folder, model);
    test::write_bytes(folder / "tokenizer.json", test::tiny_tokenizer(model.vocab));
    test::write_bytes(folder / "chat_template.jinja",
                      "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}");
    local_engine::EngineOptions options;
    options.threads = 1;
    options.backend = "scalar";
    return Engine::load(folder, options).value();
  }();
  return *kEngine;
}

void check_question(const LocalQuestion& question) {
  VERBATIM_CHECK(!question.choices.empty() && question.choices.size() <= 4096);
  for (const local_engine::GenerationRequest& choice : question.choices) {
    for (const local_engine::TokenId id : choice.prompt_ids) {
      VERBATIM_CHECK(id >= 0 && static_cast<std::size_t>(id) < engine().vocab_size());
    }
    VERBATIM_CHECK(std::isfinite(choice.sampling.temperature));
    for (const std::string& stop : choice.stop) VERBATIM_CHECK(!stop.empty());
  }
}

void run(std::string_view body) {
  for (const Api api : {Api::openai_chat, Api::openai_completions, Api::anthropic_messages}) {
    const auto question = read_local_request(api, body, engine(), 1'795'960'796'000'000, 7);
    if (question) {
      check_question(*question);
    } else {
      VERBATIM_CHECK(!question.error().what.empty());
      // The message goes to the client as JSON.
      VERBATIM_CHECK(is_json(error_body(Dialect::openai, 400, question.error().what, "", "")));
    }
  }
}

std::vector<std::string> seeds() {
  return {
      R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_tokens":5,"temperature":0.5,"top_p":0.9,"seed":3,"stop":["x","y"],"n":2,"logprobs":true,"top_logprobs":3,"stream":true,"stream_options":{"include_usage":true}})",
      R"({"model":"m","prompt":["Hi","ho"],"max_tokens":3,"echo":true,"logprobs":2,"logit_bias":{"5":-3.5},"n":2,"best_of":2})",
      R"({"model":"m","prompt":[[5,6,7],[8]],"max_tokens":0,"frequency_penalty":0.5,"presence_penalty":-1,"top_k":5,"min_p":0.1,"repetition_penalty":1.2,"ignore_eos":true})",
      R"({"model":"m","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,"stop_sequences":["z"],"top_k":3,"metadata":{"user_id":"u"}})",
      R"({"model":"m","prompt":5})"};
}

const Registration kLocalRequest({"local_request",
                                  run,
                                  seeds,
                                  {"\"prompt\":[", "\"messages\":[", "\"n\":128", "\"max_tokens\":",
                                   "\"max_completion_tokens\":", "\"stop\":", "\"logit_bias\":{",
                                   "\"temperature\":1e300", "-1", "9223372036854775808", "null",
                                   "\"top_k\":", "\"chat_template_kwargs\":{", "\"tools\":[{}]",
                                   "\"response_format\":{", "\"content\":[{", "[[[["}});

}  // namespace

}  // namespace verbatim::fuzz
