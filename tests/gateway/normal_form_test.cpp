// The normal form in which answers are compared: what it evens out, what it leaves, and that no text makes it slow.

#include "gateway/normal_form.hpp"

#include "gateway/observations.hpp"
#include "schema/digest.hpp"

#include <gtest/gtest.h>

namespace verbatim::gateway {
namespace {

const NormalForm kAll = {NormalStep::width, NormalStep::nfc, NormalStep::whitespace};

TEST(NormalForm, WidthIsOfAsciiAndSignsAlone) {
  const NormalForm form = {NormalStep::width};
  EXPECT_EQ(normalized("Ａｚ０９！～　｡､｢｣･￥￦￪", form), "Az09!~ 。、「」・¥₩↑");
  // Others that look alike, letters of other scripts, and what has one width alone.
  for (const char* same : {"。、「」", "ｱﾊﾟ", "ﾡ", "… – ’", "²ⅷ", "\uFF00\uFFDF\uFFE7\uFFEF"}) {
    EXPECT_EQ(normalized(same, form), same);
  }
  EXPECT_EQ(normalized("｟｠", form), "⦅⦆");
}

TEST(NormalForm, ComposesWhatIsCanonicallyTheSame) {
  const NormalForm form = {NormalStep::nfc};
  EXPECT_EQ(normalized("e\u0301", form), "\u00E9");
  EXPECT_EQ(normalized("\u212B", form), "\u00C5");
  EXPECT_EQ(normalized("q\u0307\u0323", form), "q\u0323\u0307");
  EXPECT_EQ(normalized("\u1100\u1161", form), "\uAC00");
  EXPECT_EQ(normalized("\uFB01 \u00B2", form), "\uFB01 \u00B2");  // only compatible
}

TEST(NormalForm, WhitespaceIsOneBlankAndNoneAtTheEnds) {
  const NormalForm form = {NormalStep::whitespace};
  EXPECT_EQ(normalized("\t\n a \r\n\u00A0\u2003b\u3000\u2028", form), "a b");
  EXPECT_EQ(normalized(" \n ", form), "");
  EXPECT_EQ(normalized("", form), "");
  for (const char* blank : {"\t", "\n", "\v", "\f", "\r", " ", "\u0085", "\u00A0", "\u1680",
                            "\u2000", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    EXPECT_EQ(normalized(std::string("a") + blank + blank + "b", form), "a b") << blank;
  }
  for (const char* other : {"\u200B", "\uFEFF", "\u180E", "\u2060", "\x1F"}) {
    const std::string text = std::string("a") + other + "b";
    EXPECT_EQ(normalized(text, form), text);
  }
}

TEST(NormalForm, StepsBuildOnEachOther) {
  // Only with the usual width the letter and the mark make one character.
  EXPECT_EQ(normalized("　Ａ\u0301　", kAll), "\u00C1");
  EXPECT_EQ(
      normal_form_of({NormalStep::whitespace, NormalStep::nfc, NormalStep::width, NormalStep::nfc}),
      kAll);
  EXPECT_EQ(describe_normal_form(kAll).dump(), R"(["width","nfc","whitespace"])");
  for (const NormalStep step : kAll) EXPECT_EQ(normal_step_named(normal_step_name(step)), step);
  EXPECT_FALSE(normal_step_named("nfkc"));
}

TEST(NormalForm, NothingIsDoneWithoutAStepOrToWhatIsNoUtf8) {
  EXPECT_EQ(normalized(" Ａ ", {}), " Ａ ");
  for (const char* broken : {" \xFF ", "Ａ\xC3", "\xED\xA0\x80  x", "\xF4\x90\x80\x80 \t"}) {
    EXPECT_EQ(normalized(broken, kAll), broken);
  }
}

/// A mark of class 230 and one of 220 in turn: the worst order, which is sorted by exchanging neighbours elsewhere. Two
/// million of them end in time or not at all.
TEST(NormalForm, LongTextsAndStormsOfMarksTakeLinearTime) {
  std::string storm = "a", sorted = "\u1EA1";
  constexpr int kPairs = 1'000'000;
  for (int i = 0; i < kPairs; ++i) storm += "\u0307\u0323";
  for (int i = 1; i < kPairs; ++i) sorted += "\u0323";
  for (int i = 0; i < kPairs; ++i) sorted += "\u0307";
  EXPECT_EQ(normalized(storm, kAll), sorted);
  EXPECT_EQ(normalized(std::string(8u << 20, ' ') + "a", kAll), "a");
  EXPECT_EQ(normalized(std::string(8u << 20, '\n'), kAll), "");
}

TEST(NormalForm, IsOfEveryTextOfAValueAndOfNoName) {
  Json value = Json::parse(R"({" a ":[" b ",{"c":"\uff01"},1.5,null]})");
  normalize_texts(value, kAll);
  EXPECT_EQ(value.dump(), R"({" a ":["b",{"c":"!"},1.5,null]})");
}

std::string answer(const std::string& text) {
  return R"({"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":")" + text +
         R"("}}]})";
}

Observations::Comparison compare(const std::string& canonical, const std::string& other,
                                 const NormalForm& form) {
  return compare_answers(comparable_answer(Api::openai_chat, false, canonical, form),
                         comparable_answer(Api::openai_chat, false, other, form), form);
}

TEST(Comparison, IsOfAnswersAsTheyAreAndInTheNormalForm) {
  using Result = Observations::Result;
  const auto near = compare(answer("Yes!"), answer(" Yes！\\n"), kAll);
  EXPECT_EQ(near.result, Result::different);
  EXPECT_EQ(near.normal_result, Result::same);
  const Json digests = Json::parse(near.digests);
  EXPECT_NE(digests["canonical"]["sha256"], digests["answer"]["sha256"]);
  EXPECT_EQ(digests["canonical"]["normal_sha256"], digests["answer"]["normal_sha256"]);
  // They are of the comparable answers, in canonical JSON: anybody can make them again.
  EXPECT_EQ(
      digests["canonical"]["sha256"],
      sha256(R"({"choices":[{"index":0,"message":{"content":"Yes!","role":"assistant"}}]})").hex());
  EXPECT_EQ(digests["answer"]["normal_sha256"], digests["canonical"]["sha256"]);

  const auto far = compare(answer("Yes"), answer("No"), kAll);
  EXPECT_EQ(far.normal_result, Result::different);
  const auto plain = compare(answer("Yes"), answer("Yes "), {});
  EXPECT_EQ(plain.result, Result::different);
  EXPECT_FALSE(Json::parse(plain.digests)["answer"].contains("normal_sha256"));
  const auto none = compare(answer("Yes"), "no JSON", kAll);
  EXPECT_EQ(none.result, Result::incomparable);
  EXPECT_EQ(none.normal_result, Result::incomparable);
  EXPECT_EQ(none.digests, "");
}

TEST(Comparison, BothResultsAreCountedApart) {
  Observations observations;
  observations.count("m", compare(answer("a"), answer("a "), kAll));
  observations.count("m", compare(answer("a"), answer("b"), kAll));
  observations.count("m", compare(answer("a"), answer("a "), {}));
  observations.count("m", compare(answer("a"), "[", kAll));
  const auto& counts = observations.by_model().at("m");
  EXPECT_EQ(counts.same, 0u);
  EXPECT_EQ(counts.different, 3u);
  EXPECT_EQ(counts.incomparable, 1u);
  EXPECT_EQ(counts.normal_same, 1u);
  EXPECT_EQ(counts.normal_different, 1u);
  EXPECT_EQ(counts.normal_incomparable, 1u);
}

}  // namespace
}  // namespace verbatim::gateway
