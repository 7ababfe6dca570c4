#include "schema/bytes.hpp"
#include "schema/canonical_json.hpp"
#include "schema/clock.hpp"
#include "schema/digest.hpp"
#include "schema/file.hpp"
#include "schema/ordered_json.hpp"
#include "schema/uuid.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <charconv>
#include <fstream>

namespace verbatim {
namespace {

TEST(Bytes, HexAndBase64RoundTrip) {
  for (std::size_t n = 0; n < 40; ++n) {
    ByteVector bytes(n);
    fill_random(bytes);
    EXPECT_EQ(from_hex(to_hex(bytes)).value(), bytes);
    EXPECT_EQ(from_base64(to_base64(bytes)).value(), bytes);
  }
}

TEST(Bytes, Base64IsStrict) {
  for (const char* bad :
       {"A", "AA", "AAA", "AA==A", "AB==", "AAB=", "A===", "====", "AA A", "AA-_"}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

TEST(Bytes, Utf8RefusesSurrogatesAndOverlongForms) {
  EXPECT_TRUE(is_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  for (const char* bad : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(Digest, MatchesPublishedVectors) {
  EXPECT_EQ(sha256(std::string_view("abc")).hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // RFC 4231, cases 2 and 6 (a key longer than the block).
  EXPECT_EQ(
      hmac_sha256(as_bytes("Jefe"), {as_bytes("what do ya want "), as_bytes("for nothing?")}).hex(),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const ByteVector key(131, 0xaa);
  EXPECT_EQ(
      hmac_sha256(key, {as_bytes("Test Using Larger Than Block-Size Key - Hash Key First")}).hex(),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Clock, FormatsAndParsesRfc3339) {
  EXPECT_EQ(format_rfc3339(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(format_rfc3339(1'795'960'796'000'123), "2026-11-29T13:59:56.000123Z");
  EXPECT_EQ(parse_rfc3339("2026-11-29T13:59:56.000123Z").value(), 1'795'960'796'000'123);
  EXPECT_EQ(parse_rfc3339("2026-11-29T14:59:56.0001239+01:00").value(), 1'795'960'796'000'123);
  EXPECT_EQ(parse_rfc3339("1970-01-02").value(), 86'400'000'000);
  EXPECT_EQ(parse_rfc3339("2016-12-31T23:59:60Z").value(),
            parse_rfc3339("2017-01-01T00:00:00Z").value());
  for (const char* bad : {"", "2026", "2026-13-01", "2026-02-30", "2026-11-29T", "2026-11-29T12:00",
                          "2026-11-29T12:00:00", "2026-11-29T24:00:00Z", "2026-11-29T12:00:00.Z",
                          "2026-11-29T12:00:00Zx", "yesterday"}) {
    EXPECT_FALSE(parse_rfc3339(bad)) << bad;
  }
}

TEST(Uuid, VersionSevenIdsIncreaseEvenWhenTheClockGoesBack) {
  ManualClock clock(1'795'960'796'000'000);
  UuidGenerator ids(clock);
  Uuid last = ids.next();
  EXPECT_EQ(last.str()[14], '7');
  for (int i = 0; i < 10'000; ++i) {
    if (i == 5'000) clock.advance_us(-3'600'000'000);
    const Uuid next = ids.next();
    ASSERT_LT(last, next);
    last = next;
  }
  EXPECT_EQ(parse_uuid(last.str()).value(), last);
  EXPECT_FALSE(parse_uuid("0193a5e0-7c1a-7b3e-9d2f-0123456789a"));
  EXPECT_FALSE(parse_uuid("0193a5e0x7c1a-7b3e-9d2f-0123456789ab"));
}

TEST(File, WritesAndReadsBack) {
  const auto folder = test::fresh_dir();
  ASSERT_TRUE(write_file(folder / "a", "one", 0600));
  ASSERT_TRUE(write_file(folder / "a", "two", 0600));
  EXPECT_EQ(read_file(folder / "a", 3).value(), "two");
  EXPECT_EQ(read_file(folder / "a", 2).error().code, Errc::invalid_input);
  EXPECT_EQ(read_file(folder / "b", 9).error().code, Errc::not_found);
  EXPECT_EQ(read_file(folder, 9).error().code, Errc::invalid_input);
  EXPECT_FALSE(write_file(folder / "no" / "such", "x"));
  EXPECT_TRUE(check_can_write(folder / "a"));
  EXPECT_TRUE(check_can_write(folder / "new"));
  EXPECT_EQ(check_can_write(folder / "no" / "such").error().code, Errc::not_found);
  // What is no file of its own is not replaced.
  std::filesystem::create_symlink(folder / "a", folder / "link");
  std::filesystem::create_directory(folder / "below");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "below", "pipe"}) {
    EXPECT_EQ(check_can_write(folder / name).error().code, Errc::invalid_input) << name;
    EXPECT_EQ(write_file(folder / name, "x").error().code, Errc::invalid_input) << name;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

TEST(CanonicalJson, NumbersAreEcmascript) {
  const std::pair<std::uint64_t, const char*> cases[] = {
      {0x4340000000000001, "9007199254740994"},
      {0x444b1ae4d6e2ef50, "1e+21"},
      {0x444b1ae4d6e2ef4f, "999999999999999900000"},
      {0x3eb0c6f7a0b5ed8d, "0.000001"},
      {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
      {0x8000000000000000, "0"},
      {0x0000000000000001, "5e-324"},
      {0x44b52d02c7e14af6, "1e+23"},
      {0x41b3de4355555555, "333333333.3333333"},
      {0xbecbf647612f3696, "-0.0000033333333333333333"}};
  for (const auto& [bits, text] : cases)
    EXPECT_EQ(ecmascript_number(std::bit_cast<double>(bits)), text);
}

TEST(CanonicalJson, SortsByUtf16) {
  EXPECT_EQ(
      canonicalize("{\"\xEF\xAC\xB3\":1,\"\xF0\x9F\x98\x82\":2, \"a\" : [1.0, 1e2, true, null]}",
                   Numbers::ecmascript)
          .value(),
      "{\"a\":[1,100,true,null],\"\xF0\x9F\x98\x82\":2,\"\xEF\xAC\xB3\":1}");
  EXPECT_EQ(canonical(Json{{"b", 1}, {"a", "x\n\x01"}}), "{\"a\":\"x\\n\\u0001\",\"b\":1}");
  EXPECT_EQ(canonical(Json{{"\xEF\xAC\xB3", 1}, {"\xF0\x9F\x98\x82", Json::object()}, {"a", ""}}),
            "{\"a\":\"\",\"\xF0\x9F\x98\x82\":{},\"\xEF\xAC\xB3\":1}");
}

TEST(CanonicalJson, LiteralNumbersNeverMerge) {
  // 1e400 is no double: a request that no JSON reader could hold.
  EXPECT_FALSE(canonicalize("[1e400]", Numbers::literal));
  EXPECT_EQ(
      canonicalize("[9007199254740993, 1.0, 1, 18446744073709551616]", Numbers::literal).value(),
      "[9007199254740993,1.0,1,18446744073709551616]");
}

TEST(CanonicalJson, RefusesWhatRfc8785Refuses) {
  const std::string deep = std::string(600, '[') + std::string(600, ']');
  for (const std::string& bad :
       {std::string("{\"a\":1,\"a\":2}"), std::string("\"\\ud800\""), std::string("[1,]"),
        std::string("\"\xff\""), std::string("{"), std::string(""), std::string("NaN"), deep}) {
    EXPECT_FALSE(canonicalize(bad, Numbers::ecmascript)) << bad;
    EXPECT_FALSE(parse_json(bad)) << bad;
    EXPECT_FALSE(parse_ordered_json(bad)) << bad;
  }
  EXPECT_THROW((void)canonical(Json(1.5)), std::logic_error);
  EXPECT_THROW((void)canonical(Json(std::uint64_t{1} << 54)), std::logic_error);
}

TEST(CanonicalJson, ReadsNoMoreValuesThanItMay) {
  EXPECT_TRUE(canonicalize("[1,[2],{\"a\":3}]", Numbers::literal, 6));
  EXPECT_FALSE(canonicalize("[1,[2],{\"a\":3}]", Numbers::literal, 5));
}

TEST(OrderedJson, KeepsTheOrderOfTheText) {
  const std::string text = R"({"z":1,"a":[true,null,{"y":-2,"b":"\u00e9"}],"m":{},"e":1.5,"l":[]})";
  EXPECT_EQ(parse_ordered_json(text)->dump(),
            R"({"z":1,"a":[true,null,{"y":-2,"b":"é"}],"m":{},"e":1.5,"l":[]})");
  EXPECT_EQ(parse_ordered_json(" 18446744073709551615 ")->get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_ordered_json("[1e999]").error().what, "a number is beyond the doubles");
  EXPECT_EQ(parse_ordered_json(R"({"a":{"b":1,"b":2}})").error().what, "the key 'b' occurs twice");
  EXPECT_FALSE(parse_ordered_json(std::string_view("[1]\0", 4)));
}

TEST(OrderedJson, ReadsManyMembersInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += "\"k" + std::to_string(i) + "\":1,";
  text.back() = '}';
  EXPECT_EQ(parse_ordered_json(text)->size(), 300'000u);  // by nlohmann's own way: minutes
}

TEST(CanonicalJson, TenThousandOfficialNumbers) {
  VERBATIM_NEED_SHARED(path, "data/vectors/jcs-rfc8785/es6numbers_10k.txt");
  std::ifstream file(path);
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    const std::size_t comma = line.find(',');
    std::uint64_t bits = 0;
    std::from_chars(line.data(), line.data() + comma, bits, 16);
    ASSERT_EQ(ecmascript_number(std::bit_cast<double>(bits)), line.substr(comma + 1)) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 10'000);
}

TEST(CanonicalJson, OfficialStructures) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/jcs-rfc8785/input");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto input = read_file(entry.path(), 1 << 20).value();
    const auto want =
        read_file(folder / ".." / "output" / entry.path().filename(), 1 << 20).value();
    EXPECT_EQ(canonicalize(input, Numbers::ecmascript).value(), want) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 6);
}

TEST(CanonicalJson, JsonTestSuite) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/JSONTestSuite");
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".json") continue;
    const auto text = read_file(entry.path(), 1 << 20).value();
    const bool strict = name.find("duplicated_key") != std::string::npos;  // valid JSON, not I-JSON
    if (name.rfind("y_", 0) == 0 && !strict) {
      EXPECT_TRUE(canonicalize(text, Numbers::literal)) << name;
      EXPECT_TRUE(parse_json(text)) << name;
    } else if (name.rfind("n_", 0) == 0) {
      EXPECT_FALSE(canonicalize(text, Numbers::literal)) << name;
      EXPECT_FALSE(parse_json(text)) << name;
    } else {
      (void)canonicalize(text, Numbers::literal);  // must not crash
    }
    ++files;
  }
  EXPECT_GE(files, 300);
}

}  // namespace
}  // namespace verbatim
