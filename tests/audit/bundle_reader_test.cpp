#include "audit/bundle_reader.hpp"

#include "audit/export.hpp"
#include "tests/audit/fixture.hpp"

#include <fstream>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

/// A log of more than one tile, and a bundle of it beside the folder.
class BundleReaderTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
    for (int i = 0; i < 150; ++i) {
      asked.push_back(exchange("body " + std::to_string(i), i % 3 == 0 ? "other" : "demo"));
    }
    asked.push_back(log->append_and_wait(request("open")).value());
    EraseRequest erase;
    erase.scope.record = asked[1].id;
    erase.reason = "asked to";
    (void)log->erase(erase).value();
    close();
    bundle = folder.string() + ".bundle";
  }
  std::unique_ptr<BundleReader> exported(ExportOptions with = {}) {
    with.out = bundle;
    (void)export_evidence(*reader(), with).value();
    return BundleReader::open(bundle, {}).value();
  }
  static std::string shown(const std::vector<RecordSummary>& records) {
    std::string text;
    for (const RecordSummary& r : records) {
      text += r.id.str() + " " + std::to_string(r.index) + " " +
              (r.response_index ? std::to_string(*r.response_index) : "-") + " " +
              std::to_string(r.time_us) + " " + r.type + " " + r.status + " " + r.model + " " +
              r.route + " " + r.cache + " " + r.tenant + "\n";
    }
    return text;
  }

  std::vector<Appended> asked;
  fs::path bundle;
};

TEST_F(BundleReaderTest, ReadsWhatTheLogsReaderReads) {
  const auto from_log = reader();
  const auto from_bundle = exported();
  EXPECT_EQ(from_bundle->origin(), from_log->origin());
  EXPECT_EQ(from_bundle->vkey(), from_log->vkey());
  EXPECT_EQ(from_bundle->checkpoint().value(), from_log->checkpoint().value());
  EXPECT_EQ(from_bundle->keys().value().newest(), from_log->keys().value().newest());
  for (const std::uint64_t index : {0U, 1U, 255U, 256U, 300U}) {
    EXPECT_EQ(from_bundle->leaf(index).value().bytes, from_log->leaf(index).value().bytes);
  }
  EXPECT_EQ(from_bundle->leaf(10'000).error().code, Errc::not_found);
  for (const std::size_t i : {0U, 77U}) {
    const auto there = from_log->leaves_of(asked[i].id).value();
    const auto here = from_bundle->leaves_of(asked[i].id).value();
    ASSERT_EQ(here.size(), there.size());
    for (std::size_t j = 0; j < here.size(); ++j) EXPECT_EQ(here[j].bytes, there[j].bytes);
  }
  EXPECT_EQ(from_bundle->leaves_of(Uuid{}).error().code, Errc::not_found);
  const auto content = from_bundle->content(asked[7].index, "request.body").value();
  const auto same = from_log->content(asked[7].index, "request.body").value();
  EXPECT_EQ(content.bytes, same.bytes);
  EXPECT_EQ(content.salt, same.salt);
  for (RecordSource* source : {static_cast<RecordSource*>(from_log.get()),
                               static_cast<RecordSource*>(from_bundle.get())}) {
    EXPECT_EQ(source->content(asked[7].index, "response.body").error().code, Errc::not_found);
    const Error erased = source->content(asked[1].index, "request.body").error();
    EXPECT_EQ(erased.code, Errc::erased);
    EXPECT_EQ(erased.message(),
              from_log->content(asked[1].index, "request.body").error().message());
  }
}

TEST_F(BundleReaderTest, ListsWhatTheLogsReaderLists) {
  const auto from_log = reader();
  const auto from_bundle = exported();
  std::vector<RecordFilter> filters(8);
  filters[1].model = "other";
  filters[2].status = "open";
  filters[3].type.clear();
  filters[4].since_us = asked[40].time_us;
  filters[4].until_us = asked[60].time_us;
  filters[5].limit = 5;
  filters[6].limit = 5;
  filters[6].newest_first = true;
  filters[7].status = "complete";
  for (const RecordFilter& filter : filters) {
    const std::string expected = shown(from_log->list(filter).value());
    EXPECT_EQ(shown(from_bundle->list(filter).value()), expected);
    EXPECT_FALSE(expected.empty());
  }
}

TEST_F(BundleReaderTest, WhatIsNotDisclosedIsUnavailableAndNotMissing) {
  ExportOptions none;
  none.contents = ContentChoice::none;
  const auto from_bundle = exported(none);
  EXPECT_EQ(from_bundle->content(asked[7].index, "request.body").error().code, Errc::unavailable);
  EXPECT_EQ(from_bundle->content(asked[7].index, "none").error().code, Errc::not_found);
  EXPECT_EQ(from_bundle->content(asked[1].index, "request.body").error().code, Errc::erased);
}

TEST_F(BundleReaderTest, WhatChangesAfterItWasVerifiedIsNotBelieved) {
  const auto from_bundle = exported();
  const std::string body = "contents/" + std::to_string(asked[7].index) + "/request.body";
  ASSERT_TRUE(fs::exists(bundle / body));
  std::ofstream(bundle / body) << "body 8";
  EXPECT_EQ(from_bundle->content(asked[7].index, "request.body").error().code, Errc::tampered);
  const fs::path entries = bundle / "tile/entries/000";
  std::fstream file(entries, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40);
  file.put('!');
  file.close();
  (void)from_bundle->leaf(290);  // another tile, so that this one is read again
  EXPECT_EQ(from_bundle->leaf(0).error().code, Errc::tampered);
  EXPECT_TRUE(from_bundle->leaf(200).has_value());
}

TEST_F(BundleReaderTest, ABundleThatDoesNotVerifyIsNotOpened) {
  exported();
  EXPECT_EQ(BundleReader::open(folder, {}).error().code, Errc::not_found);
  std::ofstream(bundle / "more.txt") << "more";
  const auto refused = BundleReader::open(bundle, {});
  EXPECT_EQ(refused.error().code, Errc::tampered);
  EXPECT_NE(refused.error().message().find("TAMPERED: more.txt"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::audit::test
