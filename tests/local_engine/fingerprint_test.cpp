// The identity of a model: the same for the same weights wherever they lie, another for any other
// weights.

#include "local_engine/fingerprint.hpp"

#include "local_engine/fingerprint_files.hpp"
#include "tests/local_engine/engine_fixture.hpp"
#include "tests/local_engine/model_bytes.hpp"

namespace verbatim::local_engine {
namespace {

namespace fs = std::filesystem;
using test::TinyModel;
using test::write_bytes;

fs::path write_model(const std::string& suffix = "") {
  const auto folder = test::fresh_dir(suffix);
  test::write_tiny_model(folder, TinyModel{});
  write_bytes(folder / "tokenizer.json", test::tiny_tokenizer(96));
  return folder;
}

TEST(FingerprintTest, ReferenceFormatsGiveTheirPublishedVectors) {
  // OpenSSF Model Signing v1.0: the files of its test vector "key".
  const auto signme = [](const std::string& name, const std::string& text) {
    return FileDigest{name, text.size(), sha256(text)};
  };
  const auto root = oms_root({signme("signme-1", "signme-1\n"), signme("signme-2", "signme-2")});
  EXPECT_EQ(root.hex(), "92745110b1ab4368471cbe31664e10174e954b113a3df333db860317b2c6dec4");
  // It does not bind names; the manifest and dirHash1 do.
  const std::vector<FileDigest> ab{signme("a", "X"), signme("b", "Y")};
  const std::vector<FileDigest> ac{signme("a", "X"), signme("c", "Y")};
  EXPECT_EQ(oms_root(ab), oms_root(ac));
  EXPECT_EQ(oms_root(ab).hex().substr(0, 8), "18030c9b");
  EXPECT_NE(dirhash1(ab), dirhash1(ac));
  EXPECT_NE(manifest_digest(ab), manifest_digest(ac));
  // dirHash1: SHA-256 over lines "<sha256>  <path>\n".
  EXPECT_EQ(dirhash1({signme("a", "X")}), sha256(sha256("X").hex() + "  a\n"));
  EXPECT_EQ(manifest_digest({signme("a", "X")}),
            sha256(R"([{"name":"a","sha256":")" + sha256("X").hex() + R"(","size":1}])"));
}

TEST(FingerprintTest, ACopyElsewhereHasTheSameFingerprint) {
  const auto here = write_model(), there = test::fresh_dir("-there");
  fs::copy(here, there / "inner");
  const auto a = fingerprint(here).value(), b = fingerprint(there / "inner").value();
  EXPECT_EQ(a.manifest_sha256, b.manifest_sha256);
  EXPECT_EQ(a.weights_sha256, b.weights_sha256);
  EXPECT_EQ(a.dirhash1, b.dirhash1);
  EXPECT_EQ(a.oms_root, b.oms_root);
  EXPECT_EQ(a.architecture, "LlamaForCausalLM");
  EXPECT_EQ(a.dtype, "F32");
  ASSERT_EQ(a.files.size(), 3u);
  EXPECT_EQ(a.files[0].name, "config.json");
  EXPECT_EQ(a.files[1].name, "model.safetensors");
  EXPECT_EQ(a.files[1].size, fs::file_size(here / "model.safetensors"));
  std::uint64_t parameters = 0;
  for (const auto& [name, tensor] : test::tiny_tensors(TinyModel{}))
    parameters += tensor.values.size();
  EXPECT_EQ(a.parameters, parameters);
  EXPECT_NE(a.tokenizer_sha256, Digest{});
  EXPECT_EQ(a.chat_template_sha256, Digest{});
}

TEST(FingerprintTest, WeightsDigestSeesWhatAReplayUsesAndNothingElse) {
  const auto folder = write_model();
  const auto before = fingerprint(folder).value();
  const auto changes = [&](const std::string& file, const std::string& bytes) {
    const auto path = folder / file;
    const bool existed = fs::exists(path);
    if (existed) fs::rename(path, folder / "kept");
    write_bytes(path, bytes);
    const auto moved = folder.parent_path() / "kept-aside";
    if (existed) fs::rename(folder / "kept", moved);
    const auto after = fingerprint(folder).value();
    fs::remove(path);
    if (existed) fs::rename(moved, path);
    EXPECT_NE(after.manifest_sha256, before.manifest_sha256) << file;
    return after.weights_sha256 != before.weights_sha256;
  };
  EXPECT_FALSE(changes("README.md", "hello"));
  EXPECT_FALSE(changes("config.json", test::tiny_config(TinyModel{}).dump(3)));  // white space
  TinyModel longer;
  longer.context = 2048;
  EXPECT_TRUE(changes("config.json", test::tiny_config(longer).dump(1)));
  EXPECT_TRUE(changes("generation_config.json", R"({"eos_token_id":5})"));
  EXPECT_FALSE(changes("generation_config.json", R"({"temperature":0.5})"));
  EXPECT_TRUE(changes("tokenizer.json", test::tiny_tokenizer(97)));
  EXPECT_TRUE(changes("chat_template.jinja", "{{ messages }}"));
  EXPECT_TRUE(changes("tokenizer_config.json", R"({"chat_template":"{{ messages }}"})"));
  EXPECT_FALSE(changes("tokenizer_config.json", R"({"model_max_length":5})"));
  auto tensors = test::tiny_tensors(TinyModel{});
  tensors.at("model.norm.weight").values[3] += 0x1p-20f;
  EXPECT_TRUE(changes("model.safetensors", test::safetensors_bytes(tensors, "F32")));
}

TEST(FingerprintTest, ShardsOfTheSameTensorsHaveTheSameWeightsDigest) {
  const auto whole = write_model(), sharded = test::fresh_dir("-sharded");
  fs::copy(whole, sharded, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::remove(sharded / "model.safetensors");
  test::write_shards(sharded, test::tiny_tensors(TinyModel{}), "F32");
  EXPECT_EQ(fingerprint(whole).value().weights_sha256, fingerprint(sharded).value().weights_sha256);
  EXPECT_NE(fingerprint(whole).value().manifest_sha256,
            fingerprint(sharded).value().manifest_sha256);
}

TEST(FingerprintTest, AnEngineReportsTheFingerprintOfItsModel) {
  const auto folder = write_model();
  const auto engine = load(folder);
  const auto expected = fingerprint(folder).value();
  EXPECT_EQ(engine->fingerprint().weights_sha256, expected.weights_sha256);
  EXPECT_EQ(engine->fingerprint().manifest_sha256, expected.manifest_sha256);
  EXPECT_EQ(engine->tokenizer()->sha256(), expected.tokenizer_sha256);
}

TEST(FingerprintTest, AGgufIsOneFileAndItsNameIsNoPartOfItsWeights) {
  const auto folder = test::fresh_dir();
  const auto bytes = test::gguf_bytes(TinyModel{});
  write_bytes(folder / "a.gguf", bytes);
  write_bytes(folder / "b.gguf", bytes);
  const auto a = fingerprint(folder / "a.gguf").value(), b = fingerprint(folder / "b.gguf").value();
  ASSERT_EQ(a.files.size(), 1u);
  EXPECT_EQ(a.files[0].name, "a.gguf");
  EXPECT_EQ(a.files[0].sha256, sha256(bytes));
  EXPECT_EQ(a.weights_sha256, b.weights_sha256);
  EXPECT_NE(a.manifest_sha256, b.manifest_sha256);
  EXPECT_EQ(a.architecture, "llama");
}

TEST(FingerprintTest, LinksInsideAreReadLinksOutOfTheFolderAreRefused) {
  const auto folder = write_model();
  const auto outside = test::fresh_dir("-outside");
  fs::create_directory(folder / "blobs");
  fs::rename(folder / "model.safetensors", folder / "blobs" / "weights");
  fs::create_symlink("blobs/weights", folder / "model.safetensors");
  const auto linked = fingerprint(folder);
  ASSERT_TRUE(linked) << linked.error().message();
  EXPECT_EQ(linked->files.size(), 4u);

  fs::rename(folder / "blobs" / "weights", outside / "weights");
  fs::remove(folder / "model.safetensors");
  fs::create_symlink(outside / "weights", folder / "model.safetensors");
  EXPECT_EQ(fingerprint(folder).error().code, Errc::invalid_input);
  EXPECT_NE(fingerprint(folder).error().what.find("leads out"), std::string::npos);
  fs::remove(folder / "model.safetensors");
  fs::create_symlink("nowhere", folder / "extra");
  EXPECT_EQ(digest_files(folder).error().code, Errc::invalid_input);
  fs::remove(folder / "extra");
  fs::create_directory_symlink(".", folder / "loop");
  EXPECT_EQ(digest_files(folder).error().code, Errc::invalid_input);
}

TEST(FingerprintTest, OddNamesAndEmptyFoldersAreRefused) {
  const auto folder = write_model();
  write_bytes(folder / "a\nb", "x");
  EXPECT_EQ(digest_files(folder).error().code, Errc::invalid_input);
  fs::remove(folder / "a\nb");
  write_bytes(folder / "\xff", "x");
  EXPECT_EQ(digest_files(folder).error().code, Errc::invalid_input);
  const auto empty = test::fresh_dir("-empty");
  EXPECT_EQ(digest_files(empty).error().code, Errc::invalid_input);
  EXPECT_EQ(digest_files(empty / "absent").error().code, Errc::not_found);
  EXPECT_EQ(fingerprint(empty / "absent").error().code, Errc::not_found);
  EXPECT_EQ(fingerprint(empty).error().code, Errc::not_found);
}

TEST(FingerprintTest, VersionControlFilesAtTheTopAreNoPartOfTheModel) {
  const auto folder = write_model();
  const auto before = fingerprint(folder).value();
  fs::create_directories(folder / ".git" / "objects");
  write_bytes(folder / ".git" / "objects" / "x", "x");
  write_bytes(folder / ".gitattributes", "x");
  EXPECT_EQ(fingerprint(folder).value().manifest_sha256, before.manifest_sha256);
  fs::create_directory(folder / "sub");
  write_bytes(folder / "sub" / ".gitattributes", "x");
  EXPECT_NE(fingerprint(folder).value().manifest_sha256, before.manifest_sha256);
}

}  // namespace
}  // namespace verbatim::local_engine
