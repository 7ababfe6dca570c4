// What is signed of a folder: each file and nothing else, in one order, whoever asks.

#include "tests/model_signing/fixture.hpp"

#include <sys/stat.h>

namespace verbatim::model_signing::test {
namespace {

using testing::ElementsAre;

class SignTest : public ModelTest {
 protected:
  [[nodiscard]] std::vector<std::string> signed_names() const {
    std::vector<std::string> names;
    const Json json = statement();
    for (const Json& resource : json["predicate"]["resources"])
      names.push_back(resource["name"].get<std::string>());
    return names;
  }
  [[nodiscard]] std::vector<std::string> left_out() const {
    return statement()["predicate"]["serialization"]["ignore_paths"];
  }
  void expect_refused(const SignOptions& with, std::string_view word) const {
    const auto made = sign_model(with, key);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::invalid_input) << made.error().message();
    EXPECT_NE(made.error().message().find(word), std::string::npos) << made.error().message();
  }
};

TEST_F(SignTest, TheStatementIsWhatTheFormatSays) {
  sign();
  const Json json = statement();
  EXPECT_EQ(json["_type"], "https://in-toto.io/Statement/v1");
  EXPECT_EQ(json["predicateType"], "https://model_signing/signature/v1.0");
  EXPECT_EQ(json["subject"][0]["name"], "demo");
  EXPECT_EQ(json["predicate"]["resources"][2], Json({{"name", "weights.bin"},
                                                     {"algorithm", "sha256"},
                                                     {"digest", sha256("0123456789").hex()}}));
  EXPECT_EQ(json["predicate"]["serialization"],
            Json({{"method", "files"},
                  {"hash_type", "sha256"},
                  {"allow_symlinks", false},
                  {"ignore_paths", {".git", ".gitattributes", ".github", ".gitignore"}}}));
  EXPECT_TRUE(read_statement(json.dump()));
}

TEST_F(SignTest, NamesAreInTheOrderOfTheirBytes) {
  for (const char* name : {"a/b", "a.txt", "a", "B", "ä", "😀", "z/z/z", "a-b"}) {
    if (std::string_view(name) != "a") write(name, name);
  }
  sign();
  EXPECT_THAT(signed_names(), ElementsAre("B", "a-b", "a.txt", "a/b", "config.json",
                                          "sub/part-1.bin", "weights.bin", "z/z/z", "ä", "😀"));
  const std::string once = statement().dump();
  sign();
  EXPECT_EQ(statement().dump(), once);
}

TEST_F(SignTest, WhatIsLeftOutIsSaid) {
  for (const char* name : {".git/HEAD", ".gitignore", ".github/x", ".gitattributes",
                           "sub/.git/HEAD", "cache/x", "sub/cache", ".gitmodules"})
    write(name, name);
  signature = model / "sub" / "model.sig";
  auto with = options();
  with.ignore = {"./cache/", "sub/part-1.bin"};
  sign(with);
  EXPECT_THAT(signed_names(), ElementsAre(".gitmodules", "config.json", "sub/.git/HEAD",
                                          "sub/cache", "weights.bin"));
  EXPECT_THAT(left_out(), ElementsAre(".git", ".gitattributes", ".github", ".gitignore", "cache",
                                      "sub/model.sig", "sub/part-1.bin"));
}

TEST_F(SignTest, TheSignatureIsNoPartOfTheModelHoweverItIsNamed) {
  const fs::path around = model / "sub" / ".." / "model.sig";
  for (const fs::path& path : {model / "model.sig", around}) {
    signature = path;
    sign();
    EXPECT_THAT(left_out(), testing::Contains("model.sig")) << path;
  }
  fs::create_directory_symlink(model, folder / "link");
  signature = folder / "link" / "model.sig";
  sign();
  EXPECT_THAT(left_out(), testing::Contains("model.sig"));
  EXPECT_EQ(name_in_model(folder / "model.sig", model), std::nullopt);
  EXPECT_EQ(name_in_model(folder / "demo.sig", model), std::nullopt);
  EXPECT_EQ(name_in_model(model / "...", model), "...");
}

TEST_F(SignTest, APathToIgnoreIsExactAndInTheModel) {
  for (const char* path :
       {"/etc", "../x", "a/../b", "*.bin", "a?", "[a]", ".", "./", "/", "a//b", "a\nb", "\xff"}) {
    auto with = options();
    with.ignore = {path};
    expect_refused(with, "no path from the model's folder");
  }
}

TEST_F(SignTest, LinksAreRefusedUnlessAllowedAndNeverLeadOut) {
  fs::create_symlink("weights.bin", model / "inside");
  expect_refused(options(), "symbolic link");
  auto with = options();
  with.allow_symlinks = true;
  sign(with);
  EXPECT_THAT(signed_names(),
              ElementsAre("config.json", "inside", "sub/part-1.bin", "weights.bin"));
  EXPECT_EQ(statement()["predicate"]["serialization"]["allow_symlinks"], true);

  std::ofstream(folder / "secret") << "x";
  fs::create_symlink(folder / "secret", model / "outside");
  expect_refused(with, "leads out");
  expect_refused(options(), "symbolic link");
  fs::remove(model / "outside");
  fs::create_directory_symlink("sub", model / "folder");
  expect_refused(with, "not a file");
  fs::remove(model / "folder");
  fs::create_symlink("nowhere", model / "nothing");
  expect_refused(with, "leads nowhere");
  // What is left out is not looked at.
  with.ignore = {"nothing"};
  sign(with);
}

TEST_F(SignTest, OddNamesAndWhatIsNoFileAreRefused) {
  write("a\nb", "x");
  expect_refused(options(), "newline");
  fs::remove(model / "a\nb");
  write("\xff", "x");
  expect_refused(options(), "UTF-8");
  fs::remove(model / "\xff");
  ASSERT_EQ(::mkfifo((model / "pipe").c_str(), 0600), 0);
  expect_refused(options(), "neither a file nor a folder");
}

TEST_F(SignTest, AModelOfNoFileIsRefused) {
  const fs::path empty = folder / "empty";
  fs::create_directories(empty / "sub");
  auto with = options();
  with.model = empty;
  expect_refused(with, "no file");
  with.model = model;
  with.ignore = {"config.json", "sub", "weights.bin"};
  expect_refused(with, "no file");
  with.model = folder / "absent";
  EXPECT_EQ(sign_model(with, key).error().code, Errc::not_found);
}

TEST_F(SignTest, AModelMayBeOneFile) {
  auto with = options();
  with.model = model / "weights.bin";
  sign(with);
  EXPECT_THAT(signed_names(), ElementsAre("weights.bin"));
  EXPECT_EQ(statement()["subject"][0]["name"], "weights.bin");
  const Json direct = statement();
  fs::create_directory(folder / "snapshot");
  fs::create_symlink(model / "weights.bin", folder / "snapshot" / "weights.bin");
  with.model = folder / "snapshot" / "weights.bin";  // named itself, a link is followed
  sign(with);
  EXPECT_EQ(statement(), direct);
  EXPECT_FALSE(statement()["predicate"]["serialization"].contains("ignore_paths"));
  with.ignore = {"x"};
  expect_refused(with, "one file");
}

TEST_F(SignTest, TheModelIsNamedByTheLastPartOfItsPath) {
  for (const fs::path& path : {model, model / "", model / ".", model / "sub" / ".."}) {
    auto with = options();
    with.model = path;
    sign(with);
    EXPECT_EQ(statement()["subject"][0]["name"], "demo") << path;
    EXPECT_EQ(signed_names().size(), 3u) << path;
  }
}

TEST_F(SignTest, ProgressEndsWithAllBytes) {
  std::uint64_t last = 0, all = 0, calls = 0;
  auto with = options();
  with.progress = [&](std::uint64_t done, std::uint64_t of) {
    EXPECT_GT(done, last);
    last = done;
    all = of;
    ++calls;
  };
  write("large.bin", std::string(3'000'000, 'x'));
  sign(with);
  EXPECT_EQ(all, 3'000'000u + 2 + 100 + 10);
  EXPECT_EQ(last, all);
  EXPECT_GE(calls, 6u);
}

}  // namespace
}  // namespace verbatim::model_signing::test
