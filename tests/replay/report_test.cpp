// Reports: recorded text stays text, and figures are those of the verdicts.

#include "replay/html.hpp"
#include "replay/replay_report.hpp"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

using replay::ReplayRun;
using replay::Verdict;
using replay::VerdictKind;

TEST(Html, MarkupInATextIsEscaped) {
  EXPECT_EQ(replay::text("<b a=\"1\" c='2'>&amp;</script>").str(),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/script&gt;");
}

TEST(Html, WhatIsNotSeenIsShownByItsCodePoint) {
  EXPECT_EQ(replay::text("a\xE2\x80\xAE"
                         "b")
                .str(),
            "a<span class=\"mark\">U+202E</span>b");
  EXPECT_EQ(replay::text(std::string("\0\r", 2)).str(),
            "<span class=\"mark\">U+0000</span><span class=\"mark\">U+000D</span>");
  EXPECT_EQ(replay::text("\xF3\xA0\x80\xA1", "tspan").str(),
            "<tspan class=\"mark\">U+E0021</tspan>");
  EXPECT_EQ(replay::text("a\n\tb \xC3\xA4\xF0\x9F\x98\x80").str(),
            "a\n\tb \xC3\xA4\xF0\x9F\x98\x80");
}

TEST(Html, BytesThatAreNoTextBecomeTheReplacementCharacter) {
  EXPECT_EQ(replay::text("a\xFF"
                         "b")
                .str(),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(Html, AttributesAreEscaped) {
  EXPECT_EQ(replay::element("i", {{"title", "\"><script>"}}, replay::text("x")).str(),
            "<i title=\"&quot;&gt;&lt;script&gt;\">x</i>");
}

TEST(Html, ATemplateIsFilledOnceAndPiecesAreNotFilledAgain) {
  EXPECT_EQ(replay::fill("a{{one}}b{{two}}",
                         {{"one", replay::text("{{two}}")}, {"two", replay::text("2")}}),
            "a{{two}}b2");
}

TEST(Html, SharesAreNeverRoundedToAllOrNothing) {
  EXPECT_EQ(replay::percent(0), "0 %");
  EXPECT_EQ(replay::percent(0.0001), "< 0.1 %");
  EXPECT_EQ(replay::percent(0.5), "50.0 %");
  EXPECT_EQ(replay::percent(0.9999), "> 99.9 %");
  EXPECT_EQ(replay::percent(1), "100 %");
}

TEST(Margins, EveryMarginHasItsClass) {
  using replay::MarginCounts;
  EXPECT_EQ(MarginCounts::class_of(0), 0U);
  EXPECT_EQ(MarginCounts::class_of(1e-6F), 1U);
  EXPECT_EQ(MarginCounts::class_of(0.05F), 10U);
  EXPECT_EQ(MarginCounts::class_of(std::numeric_limits<float>::infinity()),
            MarginCounts::kClasses - 1);
  for (std::size_t i = 1; i < MarginCounts::kEdges.size(); ++i) {
    EXPECT_LT(MarginCounts::kEdges[i - 1], MarginCounts::kEdges[i]);
    EXPECT_NEAR(MarginCounts::kEdges[i] / MarginCounts::kEdges[i - 1], 3.1622776, 1e-4);
  }
}

/// A verdict as a replay would have made it.
Verdict verdict(VerdictKind kind, const char* id, std::int64_t time_us) {
  Verdict made;
  made.record = parse_uuid(id).value();
  made.kind = kind;
  made.time_us = time_us;
  made.model = "demo";
  made.method = "score";
  made.tokens = 2;
  made.margins.add(0.5F);
  made.margins.add(0.003F);
  made.trace = {{1, 1, "Hello", 0.5F, 0, true},
                {2, 2, " </script><i>\xE2\x80\xAEx", 0.003F, 0, true}};
  return made;
}

class Report : public testing::Test {
 protected:
  static constexpr std::int64_t kDayUs = 86'400'000'000;
  void SetUp() override {
    run_.origin = "test/<log>";
    run_.verdicts = {
        verdict(VerdictKind::bitwise, "0193a5e0-7c1a-7b3e-9d2f-000000000001", 10 * kDayUs),
        verdict(VerdictKind::bitwise, "0193a5e0-7c1a-7b3e-9d2f-000000000002", 11 * kDayUs),
        verdict(VerdictKind::diverged, "0193a5e0-7c1a-7b3e-9d2f-000000000003", 12 * kDayUs)};
    run_.verdicts[2].reason = "token";
    run_.verdicts[2].position = 1;
    run_.verdicts[2].got_text = " world";
    run_.verdicts[2].trace[1].chosen = false;
    run_.selected.matching = 3;
  }
  ReplayRun run_;
};

TEST_F(Report, FiguresAreCountedFromTheVerdicts) {
  const OrderedJson figures = replay::replay_figures(run_);
  EXPECT_EQ(figures["records"], 3);
  EXPECT_EQ(figures["tokens"], 6);
  EXPECT_EQ(figures["verdicts"]["BITWISE"], 2);
  EXPECT_EQ(figures["verdicts"]["DIVERGED"], 1);
  EXPECT_EQ(figures["reasons"]["token"], 1);
  EXPECT_EQ(figures["margins"]["counts"][12], 3);  // 0.316 to 1
  EXPECT_EQ(figures["margins"]["counts"][7], 3);   // 0.001 to 0.00316
  std::uint64_t in_columns = 0;
  for (const auto& column : figures["time_line"]["columns"]) {
    for (const auto& count : column["counts"]) in_columns += count.get<std::uint64_t>();
  }
  EXPECT_EQ(in_columns, 3U);
}

TEST_F(Report, HostileTextStaysText) {
  const std::string page = replay::replay_report(run_);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("</script"), std::string::npos);
  EXPECT_EQ(page.find("\xE2\x80\xAE"), std::string::npos);
  EXPECT_NE(page.find("&lt;/script&gt;&lt;i&gt;<span class=\"mark\">U+202E</span>x"),
            std::string::npos);
  EXPECT_NE(page.find("test/&lt;log&gt;"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

TEST_F(Report, WithoutTextsNoRecordedTextIsInIt) {
  run_.with_texts = false;
  const std::string page = replay::replay_report(run_);
  EXPECT_EQ(page.find("Hello"), std::string::npos);
  EXPECT_EQ(page.find(" world"), std::string::npos);
}

TEST_F(Report, TracesAreKeptForTheWorstFirst) {
  run_.verdicts[1].trace[1].margin = 1e-5F;
  replay::keep_traces(run_.verdicts, 2);
  EXPECT_TRUE(run_.verdicts[0].trace.empty());
  EXPECT_FALSE(run_.verdicts[1].trace.empty()) << "the smallest margin";
  EXPECT_FALSE(run_.verdicts[2].trace.empty()) << "the worst verdict";
}

TEST_F(Report, AnEmptyRunHasAReportToo) {
  EXPECT_NE(replay::replay_report(ReplayRun{}).find("No record was selected"), std::string::npos);
}

TEST_F(Report, TheTableKeepsFieldsApartAndFormulasTexts) {
  run_.verdicts[0].model = "=1+1";
  run_.verdicts[1].model = "a,\"b\"";
  const std::string csv = replay::replay_csv(run_);
  EXPECT_NE(csv.find(",'=1+1,"), std::string::npos);
  EXPECT_NE(csv.find(",\"a,\"\"b\"\"\","), std::string::npos);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
}

TEST_F(Report, AVerdictReadBackFromItsLeafIsTheSame) {
  Verdict& made = run_.verdicts[2];
  made.response_index = 7;
  made.deficit = 0.25F;
  made.environment = 3;
  made.environment_differs = {"cpu"};
  made.engine = replay::ReplayEngine{"f32-k256/1", "avx2", "build", "weights"};
  const Json fields = replay::verdict_fields(made);
  EXPECT_EQ(replay::verdict_fields(replay::verdict_of_leaf(fields).value()), fields);
}

TEST_F(Report, ALeafThatIsNoVerdictIsRefusedAndOneWithOddMembersIsRead) {
  EXPECT_FALSE(replay::verdict_of_leaf({{"record", "x"}}));
  EXPECT_FALSE(replay::verdict_of_leaf(Json::array()));
  Json odd = replay::verdict_fields(run_.verdicts[0]);
  for (const Json& value : {Json(7), Json("x"), Json({{"a", 1}}), Json(nullptr)}) {
    for (const char* name : {"margins", "engine", "calibration", "environment_differs", "tokens"}) {
      odd[name] = value;
    }
    EXPECT_TRUE(replay::verdict_of_leaf(odd)) << value;
  }
}

}  // namespace
}  // namespace verbatim
