// What we export, verified by others' programs.

#include "audit/export.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"
#include "tests/audit/soft_tokens.hpp"

#include <cstdlib>
#include <fstream>

namespace verbatim::audit::test {
namespace {

class ForeignTest : public LogTest {
 protected:
  static bool have_go() {
    return std::system("go version >/dev/null 2>&1") == 0 &&
           std::filesystem::exists("/usr/share/gocode/src/golang.org/x/mod/sumdb/note");
  }
  /// The open log after some exchanges: exported, with receipts, and verified by the program in Go.
  void expect_go_accepts() {
    for (int i = 0; i < 150; ++i) exchange(std::to_string(i));
    const auto r = reader();
    ExportOptions with;
    with.out = folder / "bundle";
    ASSERT_TRUE(export_evidence(*r, with));
    std::string receipts;
    for (const unsigned index : {0U, 1U, 255U, 256U, 257U, 301U}) {
      const auto path = folder / ("r" + std::to_string(index) + ".tlog-proof");
      std::ofstream(path) << r->receipt(index).value();
      std::ofstream(folder / ("r" + std::to_string(index) + ".leaf")) << r->leaf(index)->bytes;
      receipts += " '" + path.string() + "'";
    }
    const std::string source = std::string(VERBATIM_SOURCE_DIR) + "/tests/audit/foreign/verify.go";
    const std::string program = (folder / "foreign").string();
    const std::string said = (folder / "said").string();
    const std::string build = "GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= GOCACHE='" +
                              (folder / "cache").string() + "' go build -o '" + program + "' '" +
                              source + "' > '" + said + "' 2>&1";
    ASSERT_EQ(std::system(build.c_str()), 0) << read_file(said, 1 << 20).value();
    const std::string run = "'" + program + "' '" + (folder / "bundle").string() + "' '" +
                            r->vkey() + "'" + receipts + " > '" + said + "' 2>&1";
    EXPECT_EQ(std::system(run.c_str()), 0) << read_file(said, 1 << 20).value();
    EXPECT_EQ(read_file(said, 1 << 20).value(), "size 302, 302 leaves, 6 receipts\n");
    std::fstream tile(folder / "bundle/tile/0/000",
                      std::ios::in | std::ios::out | std::ios::binary);
    tile.seekg(3000);
    const int byte = tile.get();
    tile.seekp(3000);
    tile.put(static_cast<char>(byte ^ 1));  // salts are random: any fixed byte may be there already
    tile.close();
    EXPECT_NE(std::system(run.c_str()), 0);
  }
};

TEST_F(ForeignTest, TheReferenceVerifierInGoAcceptsCheckpointTilesEntriesAndReceipts) {
  if (!have_go()) {
    GTEST_SKIP() << "SKIPPED: needs Debian's golang-go and golang-golang-x-mod-dev";
  }
  open();
  expect_go_accepts();
}

TEST_F(ForeignTest, TheReferenceVerifierInGoAcceptsWhatATokenSigned) {
  if (!have_go() || !SoftTokens::are_there()) {
    GTEST_SKIP() << "SKIPPED: needs Debian's golang-go, golang-golang-x-mod-dev, softhsm2, opensc";
  }
  const SoftTokens tokens(folder.string() + ".other");
  tokens.init("audit");
  tokens.make_key("audit", "one", "01");
  LogOptions with = options();
  with.key = tokens.uri("audit", "one");
  log = Log::open(with, clock).value();
  expect_go_accepts();
}

}  // namespace
}  // namespace verbatim::audit::test
