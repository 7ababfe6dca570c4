// What the documents say is what the program does.

#include "gateway/config.hpp"
#include "schema/file.hpp"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

std::string first_block(const std::string& text, const std::string& language) {
  const std::string fence = "```" + language + "\n";
  const std::size_t start = text.find(fence) + fence.size();
  return text.substr(start, text.find("```", start) - start);
}

std::string document(const char* name) {
  return read_file(std::filesystem::path(VERBATIM_SOURCE_DIR) / name, 1 << 20).value();
}

TEST(Documentation, TheConfigurationShownHoldsTheDefaults) {
  const std::string toml = first_block(document("docs/configuration.md"), "toml");
  const auto shown = gateway::parse_config(toml, "docs/configuration.md");
  ASSERT_TRUE(shown) << shown.error().message();

  gateway::GatewayConfig defaults;
  for (const char* text :
       {"openai=https://api.openai.com", "anthropic=https://api.anthropic.com"}) {
    defaults.upstreams.push_back(gateway::parse_upstream(text).value());
  }
  defaults.models.push_back(gateway::parse_model("demo=local_engine/demo/model").value());
  EXPECT_EQ(gateway::describe_config(*shown), gateway::describe_config(defaults));
}

TEST(Documentation, EverySectionOfTheConfigurationIsShown) {
  // Their keys are compared above, by value.
  const std::string toml = first_block(document("docs/configuration.md"), "toml");
  for (const char* section : {"[gateway]", "[log]", "[cache]", "[limits]", "[timeouts]", "[engine]",
                              "[[upstream]]", "[[model]]"}) {
    EXPECT_NE(toml.find(section), std::string::npos) << section;
  }
}

}  // namespace
}  // namespace verbatim
