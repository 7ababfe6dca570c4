#include "audit/export.hpp"

#include "audit/archive.hpp"
#include "audit/dsse.hpp"
#include "audit/proof.hpp"
#include "audit/signer.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

/// A log of 140 exchanges (more than one tile), closed, and a place to export it to.
class ExportTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
    for (int i = 0; i < exchanges_; ++i)
      exchange("body " + std::to_string(i), i < 100 ? "demo" : "other");
    close();
    out = folder / "bundle";
  }
  ExportSummary exported(ExportOptions with = {}) {
    with.out = out;
    return export_evidence(*reader(), with).value();
  }
  [[nodiscard]] std::string outcome(const VerifyOptions& with = {}) const {
    const VerifyReport report = verify(out, with).value();
    std::string text(verdict_name(report.verdict));
    for (const std::string& kind : kinds(report)) text += " " + kind;
    return text;
  }
  void overwrite(const std::string& name, const std::string& bytes) const {
    ASSERT_TRUE(fs::exists(out / name)) << name;
    std::ofstream(out / name, std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string bytes_of(const std::string& name) const {
    return read_file(out / name, 1 << 26).value();
  }

  /// What verify.py prints.
  [[nodiscard]] std::string run_python(const std::string& arguments) const {
    const fs::path script = fs::path(VERBATIM_SOURCE_DIR) / "audit/evidence/verify.py";
    const fs::path said = folder / "python.txt";
    const std::string command = "'" VERBATIM_PYTHON "' -I -B '" + script.string() + "'" +
                                arguments + " > '" + said.string() + "' 2>&1";
    const int code = std::system(command.c_str());
    std::string text = read_file(said, 1 << 20).value();
    EXPECT_EQ(code == 0, text.ends_with("\nVALID\n")) << text;
    return text;
  }
  /// Its problems and verdict on the bundle, in its own words.
  [[nodiscard]] std::string python(const std::string& arguments = "") const {
    const std::string text = run_python(" '" + out.string() + "'" + arguments);
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("problem    ")) found += "problem " + line.substr(11) + "\n";
      if (line == "VALID" || line == "INVALID") found += line;
    }
    return found.empty() ? text : found;
  }

  int exchanges_ = 140;
  fs::path out;
};

/// A small one, for tests that run verify.py too.
class BothVerifiersTest : public ExportTest {
 protected:
  void SetUp() override {
    exchanges_ = 3;
    ExportTest::SetUp();
  }
};

TEST_F(ExportTest, ABundleVerifiesByItself) {
  ExportOptions with;
  with.extra_files = {{"README.txt", "hello"}};
  const ExportSummary summary = exported(with);
  EXPECT_EQ(summary.size, 283u);
  EXPECT_EQ(summary.records, 140u);
  EXPECT_EQ(summary.contents, 280u);
  const std::string vkey = reader()->vkey();
  fs::rename(out, folder.string() + ".bundle");  // away from its log
  out = folder.string() + ".bundle";
  const VerifyReport report = verify(out, {}).value();
  EXPECT_EQ(report.verdict, Verdict::valid)
      << (report.problems.empty() ? "" : report.problems[0].detail);
  EXPECT_EQ(report.checked_leaves, 283u);
  EXPECT_EQ(report.checked_contents, 280u);
  VerifyOptions pinned;
  pinned.vkey = vkey;
  EXPECT_EQ(outcome(pinned), "VALID");
  pinned.vkey = Ed25519PrivateKey(Ed25519Seed{1}).public_key()[0] != 0
                    ? VerifierKey{"log.example/test", kNoteEd25519,
                                  Ed25519PrivateKey(Ed25519Seed{1}).public_key()}
                          .str()
                    : "";
  EXPECT_EQ(outcome(pinned), "TAMPERED key");
  EXPECT_TRUE(fs::exists(out / "tile/entries/001.p/27"));
  EXPECT_TRUE(fs::exists(out / "tile/1/000.p/1"));
  fs::remove_all(out);
}

TEST_F(ExportTest, DisclosesOnlyWhatWasChosen) {
  ExportOptions with;
  with.filter.model = "other";
  with.contents = ContentChoice::selected;
  with.fields = {"response.body"};
  const ExportSummary summary = exported(with);
  EXPECT_EQ(summary.records, 40u);
  EXPECT_EQ(summary.contents, 40u);
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_FALSE(fs::exists(out / "contents/202/request.body"));
  EXPECT_TRUE(fs::exists(out / "contents/203/response.body"));
  EXPECT_FALSE(fs::exists(out / "contents/3/response.body"));
}

TEST_F(ExportTest, OneRecordWithoutContents) {
  ExportOptions with;
  with.ids = {reader()->list({})->front().id};
  with.contents = ContentChoice::none;
  EXPECT_EQ(exported(with).contents, 0u);
  EXPECT_FALSE(fs::exists(out / "contents"));
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ExportTest, NeverWritesOverWhatIsThere) {
  exported();
  ExportOptions with;
  with.out = out;
  EXPECT_EQ(export_evidence(*reader(), with).error().code, Errc::invalid_input);
  with.out = folder / "log.db";
  EXPECT_EQ(export_evidence(*reader(), with).error().code, Errc::invalid_input);
}

TEST_F(ExportTest, ErasedContentsAreLeftOut) {
  attack("UPDATE kek SET wrapped = NULL", "keys.db");
  const ExportSummary summary = exported();
  EXPECT_EQ(summary.erased, 280u);
  EXPECT_EQ(summary.contents, 0u);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ExportTest, ChangedFilesAreNamed) {
  exported();
  const std::string body = bytes_of("contents/2/request.body");
  overwrite("contents/2/request.body", "other" + body);
  EXPECT_EQ(outcome(), "TAMPERED file_hash content_commitment");
  overwrite("contents/2/request.body", body);
  const std::string tile = bytes_of("tile/0/000");
  overwrite("tile/0/000", std::string(tile.size(), 'x'));
  EXPECT_EQ(outcome(), "TAMPERED file_hash tile");
  overwrite("tile/0/000", tile);
  const std::string entries = bytes_of("tile/entries/001.p/27");
  std::string edited = entries;
  edited.replace(edited.find("miss"), 4, "hits");
  overwrite("tile/entries/001.p/27", edited);
  EXPECT_EQ(outcome(), "TAMPERED file_hash tile checkpoint_root");
  overwrite("tile/entries/001.p/27", entries.substr(0, entries.size() - 1));
  EXPECT_EQ(outcome(), "TAMPERED file_hash entries");
  overwrite("tile/entries/001.p/27", entries);
  std::ofstream(out / "extra") << "x";
  fs::create_symlink("/etc/passwd", out / "link");
  EXPECT_EQ(outcome(), "TAMPERED file_extra file_type");
  fs::remove(out / "extra");
  fs::remove(out / "link");
  fs::rename(out / "contents/2/request.body.salt", out / "gone");
  fs::remove(out / "gone");
  EXPECT_EQ(outcome(), "TAMPERED file_missing content_salt");
}

TEST_F(ExportTest, AChangedManifestIsNotTheSignedOne) {
  exported();
  std::string manifest = bytes_of("manifest.json");
  manifest.replace(manifest.find("\"records\":140"), 13, "\"records\":141");
  overwrite("manifest.json", manifest);
  EXPECT_EQ(outcome(), "TAMPERED manifest_signature");
  Json json = Json::parse(manifest);
  json["format"] = "verbatim-evidence/3";
  overwrite("manifest.json", json.dump());
  EXPECT_EQ(verify(out, {}).error().code, Errc::newer_version);
  overwrite("manifest.json", "[]");
  EXPECT_EQ(verify(out, {}).error().code, Errc::invalid_input);
}

TEST_F(ExportTest, ACheckpointOfAnotherTimeIsStaleOrConsistent) {
  VerifyOptions older;
  older.checkpoint = reader()->checkpoint().value();
  open();
  exchange();
  close();
  VerifyOptions newer;
  exported();
  EXPECT_EQ(outcome(older), "VALID");
  open();
  exchange();
  close();
  newer.checkpoint = reader()->checkpoint().value();
  EXPECT_EQ(outcome(newer), "STALE given_checkpoint_ahead");
}

TEST_F(ExportTest, APolicyThatIsNotMetIsUnwitnessed) {
  exported();
  const Ed25519PrivateKey witness(Ed25519Seed{7});
  const VerifierKey key{"w", kNoteCosignature, witness.public_key()};
  VerifyOptions with;
  with.policy = "log " + reader()->vkey() + "\nwitness w " + key.str() + "\nquorum w\n";
  EXPECT_EQ(outcome(with), "VALID_UNWITNESSED policy_quorum");
  with.policy = "quorum none\n";
  EXPECT_EQ(outcome(with), "VALID");
  with.policy = "nonsense";
  EXPECT_EQ(verify(out, with).error().code, Errc::invalid_input);
}

TEST_F(ExportTest, AZipFileVerifiesAndIsTheSameEachTime) {
  out = folder / "bundle.zip";
  exported();
  EXPECT_EQ(outcome(), "VALID");
  const std::string first = read_file(out, 1 << 26).value();
  ExportOptions with;
  with.out = folder / "again.zip";
  ASSERT_TRUE(export_evidence(*reader(), with));
  EXPECT_EQ(read_file(with.out, 1 << 26).value(), first);
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, first.size() / 2}) {
    std::ofstream(out, std::ios::binary | std::ios::trunc) << first.substr(0, length);
    EXPECT_FALSE(verify(out, {}).has_value() && verify(out, {})->verdict == Verdict::valid);
  }
}

TEST_F(BothVerifiersTest, PythonVerifiesItToo) {
  exported();
  EXPECT_EQ(python(), "VALID");
  overwrite("contents/2/request.body", "x");
  EXPECT_EQ(python(),
            "problem contents/2/request.body is not what leaf 2 committed to\n"
            "problem contents/2/request.body is not the file that the manifest lists\nINVALID");
}

TEST_F(BothVerifiersTest, ARecordIdIsNotUsedTwice) {
  open();
  const Appended first = log->append_and_wait(request("a")).value();
  LeafDraft again = request("b");
  again.id = first.id;
  (void)log->append_and_wait(again).value();
  exported();
  EXPECT_EQ(outcome(), "TAMPERED record_id");
  EXPECT_EQ(python(), "problem leaf 11 has the record id of leaf 10\nINVALID");
}

TEST_F(BothVerifiersTest, AWrongKeyIsOneProblem) {
  exported();
  VerifyOptions with;
  with.vkey =
      VerifierKey{"log.example/test", kNoteEd25519, Ed25519PrivateKey(Ed25519Seed{1}).public_key()}
          .str();
  EXPECT_EQ(outcome(with), "TAMPERED key");
  EXPECT_EQ(verify(out, with)->problems.size(), 1u);
  EXPECT_EQ(python(" --key '" + with.vkey + "'"),
            "problem the bundle is signed by another key than the one given: " + reader()->vkey() +
                "; if the log's key was changed since, give the one of that time\nINVALID");
  EXPECT_EQ(python(" --key '" + reader()->vkey() + "'"), "VALID");
}

TEST_F(BothVerifiersTest, AKeptCheckpointIsCompared) {
  const auto kept = [&](const std::string& note) {
    std::ofstream(folder / "kept", std::ios::trunc) << note;
    VerifyOptions with;
    with.checkpoint = note;
    const std::string here = outcome(with);
    const std::string there = python(" --checkpoint '" + (folder / "kept").string() + "'");
    return here + " / " + there.substr(0, there.find(':'));
  };
  const std::string older = reader()->checkpoint().value();
  open();
  exchange();
  close();
  exported();
  open();
  exchange();
  close();
  const auto key = seed_in(folder);
  Digest root;
  const std::string forked = sign_note(checkpoint_text({key.name, 9, root}), key);
  EXPECT_EQ(kept(older), "VALID / VALID");
  EXPECT_EQ(kept(reader()->checkpoint().value()), "STALE given_checkpoint_ahead / problem STALE");
  EXPECT_EQ(kept(forked), "FORKED given_checkpoint_fork / problem FORKED");
  const std::string last = sign_note(checkpoint_text({key.name, UINT64_MAX, root}), key);
  EXPECT_EQ(kept(last), "STALE given_checkpoint_ahead / problem STALE");
  // Line ends of another system are none of the note's.
  std::string windows = older;
  for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) {
    windows.insert(at, "\r");
  }
  std::ofstream(folder / "kept", std::ios::trunc) << windows;
  EXPECT_EQ(python(" --checkpoint '" + (folder / "kept").string() + "'"), "VALID");
}

TEST_F(ExportTest, WhatDoesNotHashToItsTreeNodeIsNotGivenOut) {
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), 'request', 'reqvest') AS BLOB) "
      "WHERE idx = 2");
  EXPECT_EQ(reader()->leaf(2).error().code, Errc::tampered);
  EXPECT_EQ(reader()->content(2, "request.body").error().code, Errc::tampered);
  EXPECT_TRUE(reader()->leaf(3));
  ExportOptions with;
  with.out = out;
  EXPECT_EQ(export_evidence(*reader(), with).error().code, Errc::tampered);
  EXPECT_FALSE(fs::exists(out / "manifest.json"));
}

TEST_F(BothVerifiersTest, AReceiptVerifiesWithTheKeyAlone) {
  const std::string text = reader()->receipt(6).value();
  const std::string leaf = reader()->leaf(6)->bytes;
  VerifyOptions with;
  with.vkey = reader()->vkey();
  const auto judged = [&](const std::string& receipt) {
    const auto report = verify_receipt(receipt, with);
    std::string here = report ? std::string(verdict_name(report->verdict)) : "refused";
    if (report && !report->problems.empty()) here += " " + report->problems[0].kind;
    std::ofstream(folder / "receipt", std::ios::trunc) << receipt;
    const std::string said =
        run_python(" --receipt '" + (folder / "receipt").string() + "' --key '" + with.vkey + "'");
    EXPECT_EQ(said.ends_with("\nVALID\n"), here == "VALID") << here << said;
    EXPECT_EQ(said.find("Traceback"), std::string::npos) << said;
    return here;
  };
  EXPECT_EQ(judged(text), "VALID");
  EXPECT_EQ(verify_receipt(text, with)->leaf, leaf);
  EXPECT_EQ(verify_receipt(text, with)->index, 6u);
  EXPECT_EQ(judged(Json{{"receipt", text}, {"leaf", leaf}}.dump()), "VALID");
  EXPECT_EQ(judged(Json{{"receipt", text}, {"leaf", reader()->leaf(7)->bytes}}.dump()),
            "TAMPERED inclusion");
  const std::string own = with.vkey;
  with.vkey =
      VerifierKey{"log.example/test", kNoteEd25519, Ed25519PrivateKey(Ed25519Seed{1}).public_key()}
          .str();
  EXPECT_EQ(judged(text), "TAMPERED key");
  with.vkey = own;
  // Every byte counts.
  for (std::size_t at = 0; at < text.size(); at += text.size() / 9) {
    std::string bad = text;
    bad[at] ^= 1;
    EXPECT_NE(judged(bad), "VALID") << "byte " << at;
  }
  TlogProof proof = parse_tlog_proof(text).value();
  proof.extra.clear();
  EXPECT_EQ(judged(format_tlog_proof(proof)), "refused");
  proof.extra = leaf;
  proof.index = 7;
  EXPECT_EQ(judged(format_tlog_proof(proof)), "TAMPERED inclusion");
  EXPECT_EQ(judged("nonsense"), "refused");
  EXPECT_EQ(judged("{}"), "refused");
  with.vkey.clear();
  EXPECT_EQ(verify_receipt(text, with).error().code, Errc::invalid_input);
}

TEST_F(BothVerifiersTest, AZipFileHasOneMeaning) {
  out = folder / "bundle.zip";
  exported();
  const std::string zip = read_file(out, 1 << 26).value();
  const auto judged = [&](const std::string& bytes) {
    std::ofstream(out, std::ios::binary | std::ios::trunc) << bytes;
    const auto report = verify(out, {});
    const bool here = report && report->verdict == Verdict::valid;
    EXPECT_EQ(python() == "VALID", here);
    return here;
  };
  EXPECT_TRUE(judged(zip));
  EXPECT_FALSE(judged("junk" + zip));
  EXPECT_FALSE(judged(zip + "junk"));
  EXPECT_FALSE(judged(zip + zip));
  std::string commented = zip;
  commented[commented.size() - 2] = 4;
  EXPECT_FALSE(judged(commented + "junk"));
  EXPECT_FALSE(judged(commented));
  // An entry that is there twice, and one that only a reader that walks the entries would see.
  const std::size_t directory = zip.find("PK\x01\x02");
  const std::size_t second = zip.find("PK\x03\x04", 4);
  ASSERT_LT(second, directory);
  std::string hidden = zip;
  hidden.insert(directory, zip.substr(0, second));
  EXPECT_FALSE(judged(hidden));
  std::string moved = hidden;  // the end's own offset follows, so that its directory is found
  const std::uint32_t offset = static_cast<std::uint32_t>(directory + second);
  for (std::size_t i = 0; i < 4; ++i) {
    moved[moved.size() - 6 + i] = static_cast<char>(offset >> (8 * i));
  }
  EXPECT_FALSE(judged(moved));
  // Another name in the directory than at the entry.
  std::string renamed = zip;
  const std::size_t name = renamed.find("contents/2/request.body", directory);
  ASSERT_NE(name, std::string::npos);
  renamed[name + 9] = '4';
  EXPECT_FALSE(judged(renamed));
}

TEST_F(BothVerifiersTest, AnEntryOfAZipFileIsAPlainFile) {
  out = folder / "bundle.zip";
  exported();
  const std::string zip = read_file(out, 1 << 26).value();
  const std::size_t directory = zip.find("PK\x01\x02");
  const auto judged = [&](const std::string& bytes) {
    std::ofstream(out, std::ios::binary | std::ios::trunc) << bytes;
    const auto report = verify(out, {});
    const bool here = report && report->verdict == Verdict::valid;
    EXPECT_EQ(python() == "VALID", here);
    return here;
  };
  /// The first entry with the attributes of another kind of file, made on another kind of system.
  const auto kind = [&](unsigned mode, char dos, char system) {
    std::string bytes = zip;
    bytes[directory + 5] = system;
    bytes[directory + 38] = dos;
    bytes[directory + 40] = static_cast<char>(mode);
    bytes[directory + 41] = static_cast<char>(mode >> 8);
    return judged(bytes);
  };
  EXPECT_TRUE(kind(0100644, 0, 3));
  EXPECT_TRUE(kind(0, 0, 0));
  EXPECT_FALSE(kind(0010644, 0, 3));  // a pipe
  EXPECT_FALSE(kind(0120777, 0, 0));  // a link, by a system without any
  EXPECT_FALSE(kind(0040755, 0, 19));
  EXPECT_FALSE(kind(0, 0x10, 0));
  // Flags of which nobody here knows what they say: a patch, strong encryption, a masked header.
  for (const unsigned flags : {0x20U, 0x40U, 0x2000U}) {
    std::string bytes = zip;
    for (const std::size_t at : {std::size_t{6}, directory + 8}) {
      bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) | flags);
      bytes[at + 1] = static_cast<char>(static_cast<unsigned char>(bytes[at + 1]) | flags >> 8);
    }
    EXPECT_FALSE(judged(bytes)) << flags;
  }
  /// The first entry with one more field behind its name, in the entry itself or in the directory.
  const auto with_field = [&](const std::string& field, bool in_entry) {
    std::string bytes = zip;
    const std::size_t head = in_entry ? 0 : directory;
    const std::size_t lengths = head + (in_entry ? 26 : 28);
    const auto u16 = [&](std::size_t at) {
      return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at]) |
                                      static_cast<unsigned char>(bytes[at + 1]) << 8);
    };
    const std::size_t extra = u16(lengths + 2) + field.size();
    bytes[lengths + 2] = static_cast<char>(extra);
    bytes[lengths + 3] = static_cast<char>(extra >> 8);
    bytes.insert(head + (in_entry ? 30 : 46) + u16(lengths), field);
    const auto add = [&](std::size_t at) {
      std::uint32_t value = 0;
      for (std::size_t i = 4; i-- > 0;) {
        value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
      }
      value += static_cast<std::uint32_t>(field.size());
      for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
    };
    if (!in_entry) {
      add(bytes.size() - 10);
      return judged(bytes);
    }
    // All that follows is farther on.
    add(bytes.size() - 6);
    bool first = true;
    for (std::size_t at = directory + field.size(); bytes.compare(at, 4, "PK\x01\x02") == 0;
         at += 46 + u16(at + 28) + u16(at + 30)) {
      if (!std::exchange(first, false)) add(at + 42);
    }
    return judged(bytes);
  };
  for (const bool in_entry : {true, false}) {
    EXPECT_TRUE(with_field(std::string("\x0a\x00\x04\x00\x00\x00\x00\x00", 8), in_entry));
    EXPECT_FALSE(with_field(std::string("\x0a\x00\x00\x00", 4), in_entry));      // an empty one
    EXPECT_FALSE(with_field(std::string("\xfe\xca\x01\x00\x00", 5), in_entry));  // of another kind
    EXPECT_FALSE(with_field(std::string("\x75\x70\x05\x00\x01\x00\x00\x00\x00", 9), in_entry));
    EXPECT_FALSE(with_field(std::string("\x0a\x00\x04\x00\x00", 5), in_entry));  // cut short
  }
}

/// Writes a zip file with one entry of any kind.
void hostile_zip(const fs::path& path, const std::string& name, unsigned type,
                 const std::string& bytes) {
  archive* a = archive_write_new();
  archive_write_set_format_zip(a);
  ASSERT_EQ(archive_write_open_filename(a, path.c_str()), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, name.c_str());
  archive_entry_set_filetype(entry, type);
  if (type == AE_IFLNK) archive_entry_set_symlink(entry, "/etc/passwd");
  archive_entry_set_perm(entry, 0644);
  archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
  archive_write_header(a, entry);
  archive_write_data(a, bytes.data(), bytes.size());
  archive_entry_free(entry);
  archive_write_close(a);
  archive_write_free(a);
}

TEST_F(LogTest, HostileArchivesAreRefused) {
  const fs::path zip = folder / "bad.zip";
  for (const char* name : {"../escape", "/absolute", "a/../../b", "a//b", "./a", "a\\b"}) {
    hostile_zip(zip, name, AE_IFREG, "x");
    EXPECT_EQ(verify(zip, {}).error().code, Errc::invalid_input) << name;
  }
  hostile_zip(zip, "link", AE_IFLNK, "");
  EXPECT_EQ(verify(zip, {}).error().code, Errc::invalid_input);
  std::ofstream(zip) << "PK nonsense";
  EXPECT_EQ(verify(zip, {}).error().code, Errc::invalid_input);
  EXPECT_FALSE(fs::exists(folder.parent_path() / "escape"));
}

}  // namespace
}  // namespace verbatim::audit::test
