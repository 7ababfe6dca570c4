#pragma once
// A small folder that is a model, and verbs for signing it, changing it and verifying it.

#include "audit/dsse.hpp"
#include "model_signing/bundle.hpp"
#include "model_signing/sign.hpp"
#include "model_signing/statement.hpp"
#include "model_signing/verify.hpp"
#include "schema/file.hpp"
#include "tests/model_signing/keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::model_signing::test {

namespace fs = std::filesystem;

class ModelTest : public testing::Test {
 protected:
  void SetUp() override {
    write("config.json", "{}");
    write("sub/part-1.bin", std::string(100, 'a'));
    write("weights.bin", "0123456789");
  }

  void write(const std::string& name, std::string_view bytes) const {
    fs::create_directories((model / name).parent_path());
    std::ofstream(model / name, std::ios::binary) << bytes;
  }

  [[nodiscard]] SignOptions options() const { return {model, signature, {}, false, {}}; }

  /// Keeps the bundle in `bundle`. An error fails the test.
  void sign(const SignOptions& with) {
    auto made = sign_model(with, key);
    ASSERT_TRUE(made) << made.error().message();
    bundle = made->bundle;
  }
  void sign() { sign(options()); }

  /// The statement in `bundle`.
  [[nodiscard]] Json statement() const { return Json::parse(read_bundle(bundle).value().payload); }
  /// Signs another statement in its place, with the root that follows from its resources.
  void sign_instead(Json changed) {
    std::string digests;
    for (const Json& resource : changed["predicate"]["resources"])
      digests += as_text(from_hex(resource["digest"].get<std::string>()).value());
    changed["subject"][0]["digest"]["sha256"] = sha256(digests).hex();
    bundle = sign_statement(changed.dump(), key);
  }

  [[nodiscard]] Result<VerifyReport> try_verify(bool ignore_unsigned = false) const {
    return verify_model({model, signature, ignore_unsigned, {}}, bundle, key.public_key());
  }
  [[nodiscard]] VerifyReport verify(bool ignore_unsigned = false) const {
    const auto report = try_verify(ignore_unsigned);
    EXPECT_TRUE(report) << report.error().message();
    return report ? *report : VerifyReport{};
  }
  /// "changed: weights.bin" and so on: each problem's kind, and the first word of what it says.
  [[nodiscard]] std::vector<std::string> problems(bool ignore_unsigned = false) const {
    std::vector<std::string> found;
    for (const Problem& problem : verify(ignore_unsigned).problems)
      found.push_back(problem.kind + ": " + problem.detail.substr(0, problem.detail.find(' ')));
    return found;
  }

  const fs::path folder = verbatim::test::fresh_dir();
  const fs::path model = folder / "demo";
  fs::path signature = folder / "model.sig";
  const EcPrivateKey key = new_key();
  std::string bundle;
};

}  // namespace verbatim::model_signing::test
