// What a statement must be, and what is said of one that is not.

#include "model_signing/statement.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace verbatim::model_signing::test {
namespace {

Statement two_files() {
  Statement statement;
  statement.model = "demo";
  statement.ignore_paths = {".git", "model.sig"};
  statement.resources = {{"a/b", sha256("1").hex(), 0, 0}, {"c", sha256("2").hex(), 0, 0}};
  return statement;
}

Json two_files_json() { return Json::parse(write_statement(two_files())); }

/// The same as shards of 8 bytes: "a/b" has 20 bytes, "c" 8, "empty" none.
Json shards_json() {
  Json json = two_files_json();
  Json& serialization = json["predicate"]["serialization"];
  serialization["method"] = "shards";
  serialization["shard_size"] = 8;
  Json resources = Json::array();
  std::string root;
  for (const char* name : {"a/b:0:8", "a/b:8:16", "a/b:16:20", "c:0:8", "empty:0:0"}) {
    resources.push_back({{"name", name}, {"algorithm", "sha256"}, {"digest", sha256(name).hex()}});
    root += as_text(sha256(name).view());
  }
  json["predicate"]["resources"] = resources;
  json["subject"][0]["digest"]["sha256"] = sha256(root).hex();
  return json;
}

/// "" for a statement that is well formed, else the kind of the problem.
std::string kind_of(const Json& json) {
  const auto read = read_statement(json.dump());
  return read ? "" : read.error().kind;
}

std::string detail_of(const Json& json) {
  const auto read = read_statement(json.dump());
  return read ? "" : read.error().detail;
}

TEST(StatementTest, IsReadAsItWasWritten) {
  const Statement written = two_files();
  const auto read = read_statement(write_statement(written));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->model, "demo");
  EXPECT_EQ(read->method, Method::files);
  EXPECT_EQ(read->hash, Hash::sha256);
  EXPECT_FALSE(read->allow_symlinks);
  EXPECT_EQ(read->ignore_paths, written.ignore_paths);
  ASSERT_EQ(read->resources.size(), 2u);
  EXPECT_EQ(read->resources[0].file, "a/b");
  EXPECT_EQ(read->resources[1].digest, sha256("2").hex());
  EXPECT_EQ(write_statement(*read), write_statement(written));
}

TEST(StatementTest, TheRootIsOverTheDigestsAlone) {
  const Json json = two_files_json();
  std::string digests;
  for (const char* text : {"1", "2"}) digests += as_text(sha256(text).view());
  EXPECT_EQ(json["subject"][0]["digest"]["sha256"], sha256(digests).hex());
  Json changed = json;
  changed["predicate"]["resources"][0]["digest"] = sha256("3").hex();
  EXPECT_EQ(kind_of(changed), "root");
  changed = json;
  std::swap(changed["predicate"]["resources"][0], changed["predicate"]["resources"][1]);
  EXPECT_EQ(kind_of(changed), "root");
  changed = json;
  changed["subject"][0]["digest"]["sha256"] = sha256("x").hex();
  EXPECT_EQ(kind_of(changed), "root");
}

TEST(StatementTest, ResourcesMayComeInAnyOrder) {
  Json json = two_files_json();
  std::swap(json["predicate"]["resources"][0], json["predicate"]["resources"][1]);
  std::string digests;
  for (const char* text : {"2", "1"}) digests += as_text(sha256(text).view());
  json["subject"][0]["digest"]["sha256"] = sha256(digests).hex();
  EXPECT_EQ(kind_of(json), "");
}

TEST(StatementTest, OtherPredicatesAreNamed) {
  Json json = two_files_json();
  json["predicateType"] = "https://slsa.dev/provenance/v1";
  EXPECT_EQ(kind_of(json), "predicate_type");
  EXPECT_NE(detail_of(json).find("slsa.dev"), std::string::npos);
  json["predicateType"] = "https://model_signing/Digests/v0.1";
  EXPECT_EQ(kind_of(json), "predicate_type");
  EXPECT_NE(detail_of(json).find("before 1.0"), std::string::npos);
}

TEST(StatementTest, WhatIsNotDoneHereIsNoFaultOfTheStatement) {
  Json json = two_files_json();
  json["predicate"]["serialization"]["hash_type"] = "blake3";
  EXPECT_EQ(kind_of(json), "unsupported");
  json = two_files_json();
  json["predicate"]["serialization"]["method"] = "file-shard-1048576";
  EXPECT_EQ(kind_of(json), "unsupported");
}

TEST(StatementTest, NamesThatLeadOutOfTheModelOrNowhereAreRefused) {
  for (const std::string& name :
       {std::string("/etc/passwd"), std::string("../c"), std::string("a/../c"), std::string(".."),
        std::string("./c"), std::string("a//b"), std::string("a/"), std::string("/"), std::string(),
        std::string("a\nb"), std::string("a\0b", 3), std::string("."), std::string("a/.")}) {
    Json json = two_files_json();
    json["predicate"]["resources"][0]["name"] = name;
    EXPECT_EQ(kind_of(json), "statement") << name;
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
  for (const char* name : {"a", "...", ".git", "a b", "a:b", "a\\b", "C:", "ä/ö", "a/.b"})
    EXPECT_TRUE(is_plain_name(name)) << name;
}

TEST(StatementTest, ANameThatIsThereTwiceIsRefused) {
  Json json = two_files_json();
  json["predicate"]["resources"][1]["name"] = "a/b";
  EXPECT_EQ(kind_of(json), "statement");
  EXPECT_NE(detail_of(json).find("twice"), std::string::npos);
  json = two_files_json();
  json["predicate"]["resources"].push_back(json["predicate"]["resources"][1]);
  EXPECT_EQ(kind_of(json), "statement");
}

TEST(StatementTest, MembersMustBeWhatTheFormatSays) {
  using Change = std::function<void(Json&)>;
  const std::vector<std::pair<const char*, Change>> changes{
      {"type", [](Json& j) { j["_type"] = "https://in-toto.io/Statement/v0.1"; }},
      {"unknown member", [](Json& j) { j["extra"] = 1; }},
      {"no subject", [](Json& j) { j.erase("subject"); }},
      {"two subjects", [](Json& j) { j["subject"].push_back(j["subject"][0]); }},
      {"unnamed subject", [](Json& j) { j["subject"][0]["name"] = ""; }},
      {"subject without SHA-256",
       [](Json& j) {
         j["subject"][0]["digest"] = {{"sha512", "00"}};
       }},
      {"no predicate", [](Json& j) { j.erase("predicate"); }},
      {"predicate", [](Json& j) { j["predicate"] = Json::array(); }},
      {"predicate's member", [](Json& j) { j["predicate"]["extra"] = 1; }},
      {"no resources", [](Json& j) { j["predicate"]["resources"] = Json::array(); }},
      {"resources", [](Json& j) { j["predicate"]["resources"] = "all"; }},
      {"a resource", [](Json& j) { j["predicate"]["resources"][0] = "c"; }},
      {"name", [](Json& j) { j["predicate"]["resources"][0]["name"] = 7; }},
      {"no digest", [](Json& j) { j["predicate"]["resources"][0].erase("digest"); }},
      {"short digest", [](Json& j) { j["predicate"]["resources"][0]["digest"] = "00"; }},
      {"upper case",
       [](Json& j) { j["predicate"]["resources"][0]["digest"] = std::string(64, 'A'); }},
      {"algorithm", [](Json& j) { j["predicate"]["resources"][0]["algorithm"] = "blake2b"; }},
      {"no algorithm", [](Json& j) { j["predicate"]["resources"][0].erase("algorithm"); }},
      {"no serialization", [](Json& j) { j["predicate"].erase("serialization"); }},
      {"method", [](Json& j) { j["predicate"]["serialization"]["method"] = "tensors"; }},
      {"hash", [](Json& j) { j["predicate"]["serialization"]["hash_type"] = "md5"; }},
      {"symlinks", [](Json& j) { j["predicate"]["serialization"].erase("allow_symlinks"); }},
      {"symlinks as text",
       [](Json& j) { j["predicate"]["serialization"]["allow_symlinks"] = "false"; }},
      {"shard size of files", [](Json& j) { j["predicate"]["serialization"]["shard_size"] = 8; }},
      {"serialization's member", [](Json& j) { j["predicate"]["serialization"]["extra"] = 1; }},
      {"ignore_paths", [](Json& j) { j["predicate"]["serialization"]["ignore_paths"] = ".git"; }},
      {"ignores everything",
       [](Json& j) { j["predicate"]["serialization"]["ignore_paths"] = {"."}; }},
      {"ignores nothing", [](Json& j) { j["predicate"]["serialization"]["ignore_paths"] = {""}; }},
      {"ignores the root",
       [](Json& j) { j["predicate"]["serialization"]["ignore_paths"] = {"/"}; }},
      {"ignores outside",
       [](Json& j) { j["predicate"]["serialization"]["ignore_paths"] = {"../x"}; }},
  };
  for (const auto& [name, change] : changes) {
    Json json = two_files_json();
    change(json);
    EXPECT_EQ(kind_of(json), "statement") << name;
  }
  for (const char* text : {"", "{", "[]", "1", "null", R"({"_type":1,"_type":2})"}) {
    const auto read = read_statement(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, "statement");
  }
}

TEST(StatementTest, WhatTheFormatAllowsBesideIsTaken) {
  Json json = two_files_json();
  json["subject"][0]["uri"] = "https://models.example/demo";
  json["subject"][0]["digest"]["sha512"] = "00";
  json["predicate"]["resources"][0]["mediaType"] = "application/json";
  json["predicate"]["serialization"].erase("ignore_paths");
  json["predicate"]["serialization"]["allow_symlinks"] = true;
  const auto read = read_statement(json.dump());
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_TRUE(read->allow_symlinks);
  EXPECT_TRUE(read->ignore_paths.empty());
  json["predicate"]["serialization"]["ignore_paths"] = {".git/", "a"};
  EXPECT_EQ(read_statement(json.dump())->ignore_paths, (std::vector<std::string>{".git", "a"}));
}

TEST(StatementTest, Blake2bHasDigestsOf64Bytes) {
  Json json = two_files_json();
  json["predicate"]["serialization"]["hash_type"] = "blake2b";
  std::string root;
  for (Json& resource : json["predicate"]["resources"]) {
    resource["algorithm"] = "blake2b";
    EXPECT_EQ(kind_of(json), "statement");  // digests of 32 bytes still
    const auto digest = sha256(resource["name"].get<std::string>()).hex();
    resource["digest"] = digest + digest;
    root += as_text(from_hex(digest + digest).value());
  }
  json["subject"][0]["digest"]["sha256"] = sha256(root).hex();
  EXPECT_EQ(kind_of(json), "");
}

TEST(StatementTest, ShardsCutEachFileWhole) {
  const auto read = read_statement(shards_json().dump());
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->method, Method::shards);
  EXPECT_EQ(read->shard_size, 8u);
  EXPECT_EQ(read->resources[2].file, "a/b");
  EXPECT_EQ(read->resources[2].start, 16u);
  EXPECT_EQ(read->resources[2].end, 20u);
  for (const auto& [at, name] : std::vector<std::pair<int, const char*>>{
           {0, "a/b:1:8"},    // a gap before the first
           {1, "a/b:8:15"},   // a gap between, and a short shard that is not the last
           {1, "a/b:7:16"},   // an overlap
           {1, "a/b:0:8"},    // twice
           {2, "a/b:16:25"},  // larger than a shard
           {2, "a/b:16:16"},  // nothing more
           {2, "a/b:20:16"},  // backwards
           {3, "c:8:16"},     // begins late
           {0, "a/b"},        // no shard
           {0, "a/b:0"},      // no end
           {0, "a/b:-1:8"},   // a sign
           {0, "a/b:00:8"},   // written otherwise
           {0, "a/b:0:8 "},   // white space
           {0, "a/b:0x0:8"},  // another base
           {0, ":0:8"},       // no name
           {0, "../a:0:8"},   // outside
           {0, "a:0:18446744073709551616"}}) {  // 2^64
    Json json = shards_json();
    json["predicate"]["resources"][static_cast<std::size_t>(at)]["name"] = name;
    EXPECT_EQ(kind_of(json), "statement") << name;
  }
  for (const Json& size : {Json(0), Json(-8), Json(8.5), Json("8"), Json(nullptr), Json(1e300)}) {
    Json json = shards_json();
    json["predicate"]["serialization"]["shard_size"] = size;
    EXPECT_EQ(kind_of(json), "statement") << size;
  }
}

TEST(StatementTest, ShardsMayBeWrittenAsOtherSignersDo) {
  Json json = shards_json();
  json["predicate"]["serialization"]["shard_size"] = 8.0;
  json["predicate"]["serialization"]["hash_type"] = "sha256-sharded-8";
  for (Json& resource : json["predicate"]["resources"]) resource["algorithm"] = "sha256-sharded-8";
  EXPECT_EQ(kind_of(json), "");
  json["predicate"]["resources"][1]["algorithm"] = "sha256-sharded-9";
  EXPECT_EQ(kind_of(json), "statement");
  // A name may hold colons itself: the last two numbers count.
  json = shards_json();
  json["predicate"]["resources"][3]["name"] = "c:1:0:8";
  EXPECT_EQ(read_statement(json.dump())->resources[3].file, "c:1");
}

TEST(StatementTest, MoreValuesThanAnyModelHasAreNotRead) {
  std::string text = "{\"_type\":[";
  for (int i = 0; i < 2'000'001; ++i) text += "0,";
  text += "0]}";
  const auto read = read_statement(text);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().detail.find("two million"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::model_signing::test
