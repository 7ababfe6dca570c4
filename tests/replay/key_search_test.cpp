// In which forms an API key is found, and that a text without it is not taken for one with it.

#include "replay/key_search.hpp"

#include "schema/bytes.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <random>

namespace verbatim::replay {
namespace {

constexpr const char* kKey = "sk-live/ab+cd_ef%41&0123456789\\u==";

std::string hex_of(unsigned char c) { return to_hex({&c, 1}); }

std::string html_digits(char c) { return "&#" + std::to_string(static_cast<int>(c)) + ";"; }

const std::function<std::string(char)> kEscapes[] = {
    [](char c) { return std::string(1, c); },
    [](char c) { return std::string(c == '\\' || c == '/' || c == '"' ? "\\" : "") + c; },
    [](char c) { return "\\u00" + hex_of(static_cast<unsigned char>(c)); },
    [](char c) { return "\\x" + hex_of(static_cast<unsigned char>(c)); },
    [](char c) { return "%" + hex_of(static_cast<unsigned char>(c)); },
    [](char c) { return "%25" + hex_of(static_cast<unsigned char>(c)); },
    [](char c) { return "\\\\u00" + hex_of(static_cast<unsigned char>(c)); },
    [](char c) { return html_digits(c); },
    [](char c) { return "&#x" + hex_of(static_cast<unsigned char>(c)) + ";"; },
    [](char c) { return "&amp;#" + std::to_string(static_cast<int>(c)) + ";"; },
    [](char c) { return "\\u0026#" + std::to_string(static_cast<int>(c)) + ";"; },
    [](char c) { return std::string(1, c) + "\\n"; },
    [](char c) { return std::string(1, c) + "\r\n "; },
};

TEST(KeySearch, FindsTheKeyHoweverItsCharactersAreWritten) {
  const KeySearch search(kKey);
  for (const auto& escape : kEscapes) {
    std::string text = "You sent ";
    for (const char* c = kKey; *c != '\0'; ++c) text += escape(*c);
    EXPECT_TRUE(search.finds(text)) << text;
    EXPECT_TRUE(search.finds(text + ".")) << text;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text = "key=";
    for (const char* c = kKey; *c != '\0'; ++c)
      text += kEscapes[random() % std::size(kEscapes)](*c);
    ASSERT_TRUE(search.finds(text)) << text;
  }
}

TEST(KeySearch, FindsTheKeyEncodedWithWhatStandsAroundIt) {
  const KeySearch search(kKey);
  for (const char* before : {"", "Bearer ", "u:", "x-api-key: ", "{\"k\":\""}) {
    for (const char* behind : {"", "!", "\"}", "\r\n"}) {
      const std::string text = std::string(before) + kKey + behind;
      std::string base64 = to_base64(as_bytes(text));
      EXPECT_TRUE(search.finds("<" + base64 + ">")) << text;
      base64.insert(20, "\\r\\n");  // as MIME breaks lines, in JSON
      EXPECT_TRUE(search.finds(base64)) << text;
      for (char& c : base64) c = c == '+' ? '-' : c == '/' ? '_' : c;
      EXPECT_TRUE(search.finds(base64)) << text;
      std::string hex = to_hex(as_bytes(text));
      EXPECT_TRUE(search.finds(hex)) << text;
      for (char& c : hex) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      EXPECT_TRUE(search.finds("0x" + hex)) << text;
    }
  }
}

TEST(KeySearch, TakesNoOtherTextForTheKey) {
  const KeySearch search(kKey);
  for (const std::string text :
       {"", "A log is a list.", "sk-live/ab+cd_ef%41&012345678", "sk-live/ab+cd", "%", "\\",
        "\\u00", "&#;", "&;", "\\u00e9 \\ud83d %C3%A9 &#233; &nbsp;", "c2stbGl2ZQ=="}) {
    EXPECT_FALSE(search.finds(text)) << text;
  }
  EXPECT_FALSE(KeySearch("").finds("anything"));
  // Placeholders, as local servers are given: not in encoded forms, and not everywhere.
  EXPECT_FALSE(KeySearch("x").finds("a log: 78, eA"));
  EXPECT_FALSE(KeySearch("\\n").finds("a log"));
  EXPECT_TRUE(KeySearch("none").finds("there is none"));
}

TEST(KeySearch, UndoesEscapesWithinEscapesInOneReading) {
  std::string deep = "%";
  for (int i = 0; i < 200'000; ++i) deep += "25";
  EXPECT_EQ(plain_form(deep + "41"), "A");
  EXPECT_EQ(plain_form("a\\/b \\u0063&amp;amp;\\\\u0064%2565&#x66;"), "a/bc&def");
  EXPECT_EQ(plain_form("100 %, R&D; \\q \\u12"), "100%,R&D;qu12");
}

}  // namespace
}  // namespace verbatim::replay
