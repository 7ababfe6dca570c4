// Renderings of published chat templates, against those of the reference implementation (python3-jinja2 with Hugging
// Face's settings).

#include "local_engine/chat_template.hpp"
#include "schema/clock.hpp"
#include "schema/file.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

namespace verbatim::local_engine {
namespace {

struct Case {
  OrderedJson messages;
  OrderedJson tools;
};

std::map<std::string, Case> read_cases(const std::filesystem::path& path, std::int64_t& now_us) {
  const auto json = OrderedJson::parse(read_file(path, 1 << 24).value());
  now_us = parse_rfc3339(json.at("now").get<std::string>() + "Z").value();
  std::map<std::string, Case> cases;
  for (const auto& [name, value] : json.at("cases").items()) {
    cases[name] = {value.at("messages"), value.value("tools", OrderedJson())};
  }
  return cases;
}

TEST(ChatTemplateVectors, EveryRenderingIsThatOfTheReferenceByteForByte) {
  VERBATIM_NEED_SHARED(folder, "data/templates");
  std::int64_t now_us = 0;
  const auto cases = read_cases(folder / "conversations.json", now_us);
  std::map<std::string, std::shared_ptr<const ChatTemplate>> templates;
  std::map<std::string, int> failures;
  int count = 0;
  std::ifstream in(folder / "rendered.jsonl");
  for (std::string line; std::getline(in, line); ++count) {
    const auto expected = OrderedJson::parse(line);
    const auto name = expected.at("template").get<std::string>();
    auto& parsed = templates[name];
    if (parsed == nullptr) {
      const auto result = ChatTemplate::parse(read_file(folder / name, 1 << 24).value());
      ASSERT_TRUE(result) << name << ": " << result.error().message();
      parsed = *result;
    }
    const Case& conversation = cases.at(expected.at("case").get<std::string>());
    RenderInput input;
    input.messages = conversation.messages;
    input.tools = conversation.tools;
    input.add_generation_prompt = expected.at("add_generation_prompt").get<bool>();
    input.variables = expected.at("kwargs");
    input.variables["bos_token"] = expected.at("bos_token");
    input.variables["eos_token"] = expected.at("eos_token");
    input.now_us = now_us;
    const auto rendered = parsed->render(input);
    const std::string got = rendered ? *rendered : rendered.error().what;
    const std::string want = expected.contains("output") ? expected.at("output").get<std::string>()
                                                         : expected.at("raises").get<std::string>();
    const bool good = got == want && static_cast<bool>(rendered) == expected.contains("output");
    if (!good && failures[name]++ == 0) {
      ADD_FAILURE() << name << ", " << expected.at("case") << "\n--- got\n"
                    << (rendered ? got : rendered.error().message()) << "\n--- expected\n"
                    << want;
    }
  }
  EXPECT_EQ(templates.size(), 62U);
  EXPECT_EQ(count, 2253);
  for (const auto& [name, failed] : failures) {
    EXPECT_EQ(failed, 0) << name;
  }
}

}  // namespace
}  // namespace verbatim::local_engine
