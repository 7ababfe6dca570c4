// The bundled model is the one that was trained, and says what it was trained to say.

#include "local_engine/engine.hpp"
#include "schema/canonical_json.hpp"
#include "schema/file.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace verbatim {
namespace {

using local_engine::Engine;

const std::filesystem::path kDemo =
    std::filesystem::path(VERBATIM_SOURCE_DIR) / "local_engine/demo";

TEST(DemoModel, ItsFingerprintIsTheRecordedOne) {
  const Json recorded = Json::parse(read_file(kDemo / "fingerprint.json", 1 << 20).value());
  const auto print = local_engine::fingerprint(kDemo / "model").value();
  EXPECT_EQ(print.manifest_sha256.hex(), recorded.at("manifest_sha256"));
  ASSERT_EQ(print.files.size(), recorded.at("files").size());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < print.files.size(); ++i) {
    EXPECT_EQ(print.files[i].name, recorded["files"][i]["name"]);
    EXPECT_EQ(print.files[i].sha256.hex(), recorded["files"][i]["sha256"]);
    bytes += print.files[i].size;
  }
  EXPECT_LE(bytes, 4'000'000U);
}

TEST(DemoModel, AnswersEveryQuestionInItsWords) {
  local_engine::EngineOptions options;
  options.threads = 1;
  const auto engine = Engine::load(kDemo / "model", options).value();
  std::ifstream file(kDemo / "questions.jsonl");
  std::string line;
  int questions = 0;
  while (std::getline(file, line)) {
    const OrderedJson question = OrderedJson::parse(line);
    std::string prompt = question.value("prompt", "");
    if (question.contains("messages")) {
      local_engine::RenderInput input;
      input.messages = question["messages"];
      prompt = engine->chat_template()->render(input).value();
    }
    local_engine::GenerationRequest request;
    request.prompt_ids =
        engine->tokenizer()->encode(prompt, {.add_special = false, .parse_special = true}).value();
    EXPECT_EQ(request.prompt_ids, question["prompt_ids"].get<std::vector<local_engine::TokenId>>())
        << line;
    request.tokens_max = 128;
    const auto answer = engine->generate_and_wait(request).value();
    EXPECT_EQ(answer.text, question["answer"].get<std::string>()) << line;
    ++questions;
  }
  EXPECT_GE(questions, 24);
}

}  // namespace
}  // namespace verbatim
