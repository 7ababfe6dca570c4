#include "audit/note.hpp"

#include "audit/checkpoint.hpp"
#include "audit/dsse.hpp"
#include "audit/merkle.hpp"
#include "audit/policy.hpp"
#include "audit/proof.hpp"
#include "audit/tiles.hpp"
#include "schema/canonical_json.hpp"
#include "schema/file.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

namespace verbatim::audit {
namespace {

constexpr std::string_view kPeterSkey =
    "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
constexpr std::string_view kPeterVkey =
    "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
constexpr std::string_view kEnochVkey =
    "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
const std::string kText =
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n";
const std::string kPeterLine =
    "\xE2\x80\x94 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqf"
    "qdngotpRZb6KE6RyyBwJnAM=\n";
const std::string kEnochLine =
    "\xE2\x80\x94 EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOT"
    "GwnWLox33WWd1RvMc+QQ=\n";
const std::string kNote = kText + "\n" + kPeterLine + kEnochLine;

VerifierKey vkey(std::string_view text) { return parse_vkey(text).value(); }

TEST(Note, SigningGivesThePublishedBytes) {
  const auto key = parse_skey(kPeterSkey).value();
  EXPECT_EQ(key.verifier().str(), kPeterVkey);
  EXPECT_EQ(sign_note(kText, key), kText + "\n" + kPeterLine);
  const NoteSigningKey enoch{"EnochRoot", Ed25519PrivateKey(Ed25519Seed{})};
  EXPECT_EQ(enoch.verifier().str(), kEnochVkey);
  EXPECT_EQ(sign_note(kText, enoch), kText + "\n" + kEnochLine);
  EXPECT_EQ(format_skey("EnochRoot", Ed25519Seed{}).substr(0, 30),
            "PRIVATE+KEY+EnochRoot+af0cfe78");
}

TEST(Note, OpensWithWhicheverKeysAreKnown) {
  const VerifierKey both[] = {vkey(kPeterVkey), vkey(kEnochVkey)};
  EXPECT_EQ(open_note(kNote, both)->verified.size(), 2u);
  const auto one = open_note(kNote, {both, 1}).value();
  EXPECT_EQ(one.text, kText);
  EXPECT_EQ(one.verified.size(), 1u);
  EXPECT_EQ(one.unknown.at(0).name, "EnochRoot");
  EXPECT_EQ(open_note(kNote, {}).error().code, Errc::not_found);
  // A second line of a key that already signed is ignored.
  EXPECT_EQ(open_note(kNote + kPeterLine, both)->verified.size(), 2u);
  // A known key's wrong signature spoils the note, although the other is right.
  std::string spoiled = kNote;
  spoiled[kText.size() + 40] = 'x';  // in the first signature
  EXPECT_EQ(open_note(spoiled, both).error().code, Errc::tampered);
}

TEST(Note, RealOnes) {
  EXPECT_TRUE(
      open_note("This is an example message.\n\n\xE2\x80\x94 example.com/foo "
                "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuw"
                "HjG1Yu72IneyaQM=\n",
                std::vector{vkey("example.com/foo+530d903a+"
                                 "AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")}));
  const auto sumdb = open_checkpoint(
      "go.sum database tree\n35225469\nvt5T6GaLCXvyHFl9VUvvItR43XZxfLgftEcTyO3eJCQ=\n\n"
      "\xE2\x80\x94 sum.golang.org Az3grpukl5AXaVfYkLiDGORx/DN2nlcS5kZHR5uYOBV2KA2HgXpD+gu9HHONebHL"
      "AyaKbbTM75QTtPydhKCExixSfwQ=\n",
      vkey("sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"));
  EXPECT_EQ(sumdb->size, 35'225'469u);
  EXPECT_EQ(sumdb->origin, "go.sum database tree");
}

TEST(Note, RefusesMalformedOnes) {
  const std::vector keys{vkey(kPeterVkey)};
  const auto refused = [&](const std::string& note) {
    const auto opened = open_note(note, keys);
    return !opened && opened.error().code == Errc::invalid_input;
  };
  const std::string good = kText + "\n" + kPeterLine;
  EXPECT_FALSE(refused(good));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(kText));
  EXPECT_TRUE(refused(kText + "\n"));
  EXPECT_TRUE(refused(good.substr(0, good.size() - 1)));
  EXPECT_TRUE(refused("\x01" + good));
  EXPECT_TRUE(refused("\t" + good));
  EXPECT_TRUE(refused("\xff" + good));
  EXPECT_TRUE(refused(good + "not a signature\n"));
  EXPECT_TRUE(refused(good + "\xE2\x80\x94 a b AAAAAAAA\n"));
  EXPECT_TRUE(refused(good + "\xE2\x80\x94 name AAAA\n"));
  EXPECT_TRUE(refused(good + "\xE2\x80\x94 na+me AAAAAAAA\n"));
  EXPECT_TRUE(refused(good + "\xE2\x80\x94 name AAAAAAA*\n"));
  EXPECT_TRUE(refused(good + "\xE2\x80\x94 na\xC2\xA0me AAAAAAAA\n"));
  std::string many = kText + "\n";
  for (int i = 0; i < 101; ++i) many += "\xE2\x80\x94 other AAAAAAAA\n";
  EXPECT_TRUE(refused(many));
  EXPECT_EQ(open_note(kText + "\n" + std::string("\xE2\x80\x94 PeterNeumann ABCD") +
                          kPeterLine.substr(17),
                      keys)
                .has_value(),
            false);
}

TEST(Note, EveryChangedByteOfASignedNoteIsRefused) {
  const std::vector keys{vkey(kPeterVkey)};
  const std::string good = kText + "\n" + kPeterLine;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      ASSERT_FALSE(open_note(bad, keys)) << i << " " << bit;
    }
  }
}

TEST(Note, RefusesMangledKeys) {
  for (std::size_t i = 0; i < kPeterVkey.size(); ++i) {
    std::string bad(kPeterVkey);
    ++bad[i];
    EXPECT_FALSE(parse_vkey(bad)) << bad;
    EXPECT_FALSE(parse_vkey(kPeterVkey.substr(0, i)));
    if (i > 0) {
      EXPECT_FALSE(parse_vkey(kPeterVkey.substr(i)));
    }
  }
  for (std::size_t i = 0; i < kPeterSkey.size(); ++i) {
    std::string bad(kPeterSkey);
    ++bad[i];
    EXPECT_FALSE(parse_skey(bad)) << bad;
    EXPECT_FALSE(parse_skey(kPeterSkey.substr(0, i)));
  }
  // Published type-0x04 key: the same rule for its id.
  EXPECT_EQ(vkey("remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2").type,
            kNoteCosignature);
}

TEST(Checkpoint, ExactFormOnly) {
  const std::string root = to_base64(empty_root().view());
  EXPECT_TRUE(parse_checkpoint_text("o\n0\n" + root + "\n"));
  EXPECT_TRUE(parse_checkpoint_text("o\n7\n" + root + "\nextension\n"));
  EXPECT_TRUE(parse_checkpoint_text("o\n18446744073709551615\n" + root + "\n"));
  for (const char* size : {"007", "+7", " 7", "7 ", "", "-1", "0x7", "18446744073709551616"}) {
    EXPECT_FALSE(parse_checkpoint_text("o\n" + std::string(size) + "\n" + root + "\n")) << size;
  }
  EXPECT_FALSE(parse_checkpoint_text("\n7\n" + root + "\n"));
  EXPECT_FALSE(parse_checkpoint_text("o\n7\n" + root));
  EXPECT_FALSE(parse_checkpoint_text("o\n7\n" + root + "\n\n"));
  EXPECT_FALSE(parse_checkpoint_text("o\n7\nAAAA\n"));
  EXPECT_FALSE(parse_checkpoint_text("o\n7\n"));
}

constexpr std::string_view kTesseraSkey =
    "PRIVATE+KEY+example.com/log/testdata+33d7b496+AeymY/SZAX0jZcJ8enZ5FY1Dz+wTML2yWSkK+9DSF3eg";

TEST(Checkpoint, ThePublishedLogIsReadRecomputedAndSignedAgain) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/audit/tessera-log15");
  const auto key = parse_skey(kTesseraSkey).value();
  CompactRange tree;
  std::vector<Digest> nodes;
  std::string tile;
  for (std::uint64_t size = 0; size <= 15; ++size) {
    const auto note = read_file(folder / ("checkpoint." + std::to_string(size)), 1 << 16).value();
    const Checkpoint head{"example.com/log/testdata", size, tree.root()};
    EXPECT_EQ(open_checkpoint(note, key.verifier()).value(), head);
    EXPECT_EQ(sign_note(checkpoint_text(head), key), note);
    if (size > 0) {
      EXPECT_EQ(read_file(folder / tile_path({0, 0, size}), 1 << 16).value(), tile);
    }
    if (size == 15) break;
    const auto bundle = read_file(folder / entries_path(0, size + 1), 1 << 16).value();
    const auto leaf = split_entries(bundle)->back();
    tree.append(leaf_hash(as_bytes(leaf)), [&](const Digest& hash) { nodes.push_back(hash); });
    tile += as_text(leaf_hash(as_bytes(leaf)).view());
  }
  // A receipt on it, by the published path.
  TlogProof proof;
  proof.index = 7;
  proof.checkpoint = read_file(folder / "checkpoint", 1 << 16).value();
  proof.hashes = make_inclusion_proof(
                     [&](int level, std::uint64_t n) -> Result<Digest> {
                       return nodes.at(stored_hash_index(level, n));
                     },
                     7, 15)
                     .value();
  EXPECT_EQ(to_base64(proof.hashes[0].view()), "2Q0P5jSR+TdkwdXWyx+GbBWX0KZbNZkWzCjyTPSozsw=");
  EXPECT_EQ(to_base64(proof.hashes[3].view()), "5jLpqTgjsBDSEX6SgZiRnbTMdTuRd8bQ5tSsAOxe0Ks=");
  const auto read = parse_tlog_proof(format_tlog_proof(proof)).value();
  EXPECT_TRUE(verify_tlog_proof(read, as_bytes("eit"), key.verifier()));
  EXPECT_EQ(verify_tlog_proof(read, as_bytes("EIT"), key.verifier()).error().code, Errc::tampered);
}

TEST(TlogProof, ExactFormOnly) {
  const auto key = parse_skey(kTesseraSkey).value();
  TlogProof proof;
  proof.extra = "extra";
  proof.index = 3;
  proof.hashes.resize(2);
  proof.checkpoint = sign_note(checkpoint_text({"o", 4, {}}), key);
  const std::string text = format_tlog_proof(proof);
  const auto read = parse_tlog_proof(text).value();
  EXPECT_EQ(read.extra, "extra");
  EXPECT_EQ(read.index, 3u);
  EXPECT_EQ(read.hashes.size(), 2u);
  EXPECT_EQ(read.checkpoint, proof.checkpoint);
  for (std::size_t i = 0; i < text.size() - proof.checkpoint.size(); ++i) {
    EXPECT_FALSE(parse_tlog_proof(text.substr(0, i)));
  }
  std::string bad = text;
  bad.replace(bad.find("index 3"), 7, "index 03");
  EXPECT_FALSE(parse_tlog_proof(bad));
  proof.hashes.resize(64);
  EXPECT_FALSE(parse_tlog_proof(format_tlog_proof(proof)));
}

Ed25519Seed counting_seed() {
  Ed25519Seed seed;
  for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<std::uint8_t>(i);
  return seed;
}

const std::string kWitness =
    "witness.example/w1+e75f6532+BAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";

TEST(Policy, CosignatureVector) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/audit/tessera-log15");
  const auto note = read_file(folder / "checkpoint.15", 1 << 16).value();
  const auto parsed = parse_note(note).value();
  const std::string line =
      cosign(parsed.text, "witness.example/w1", Ed25519PrivateKey(counting_seed()), 1'679'315'147);
  EXPECT_EQ(line,
            "\xE2\x80\x94 witness.example/w1 519lMgAAAABkGFDLo0vvaVMnQBetpNUCKKILroiWxoSAyyV9iB/cg"
            "czFo9ONQdSuKdatX9+k2ggtjAKaVSHrTWaVvipK5HiRqnepAA==\n");
  const auto cosigned = parse_note(note + line).value();
  EXPECT_EQ(verify_cosignature(cosigned.signatures[1], cosigned.text, vkey(kWitness)),
            1'679'315'147u);
  EXPECT_FALSE(verify_cosignature(cosigned.signatures[1], cosigned.text + "x\n", vkey(kWitness)));
  EXPECT_FALSE(verify_cosignature(cosigned.signatures[0], cosigned.text, vkey(kWitness)));
}

TEST(Policy, QuorumsCountWitnessesAndGroups) {
  const Ed25519PrivateKey a(Ed25519Seed{1}), b(Ed25519Seed{2}), c(Ed25519Seed{3});
  const auto line = [](const std::string& name, const Ed25519PrivateKey& key) {
    return "witness " + name + " " + VerifierKey{name, kNoteCosignature, key.public_key()}.str() +
           " https://" + name + ".example\n";
  };
  const std::string witnesses = "# who watches\n" + line("a", a) + line("b", b) + line("c", c);
  const std::string text = "o\n1\n" + to_base64(empty_root().view()) + "\n";
  const std::string log_line = "\xE2\x80\x94 o AAAAAAAA\n";
  const auto met = [&](const std::string& rules, const std::string& lines) {
    return Policy::parse(witnesses + rules)
        ->met_by(parse_note(text + "\n" + log_line + lines).value());
  };
  const std::string by_a = cosign(text, "a", a, 1);
  const std::string by_b = cosign(text, "b", b, 2);
  EXPECT_TRUE(met("quorum none\n", ""));
  EXPECT_TRUE(met("quorum a\n", by_a));
  EXPECT_FALSE(met("quorum b\n", by_a));
  EXPECT_FALSE(met("group g 2 a b c\nquorum g\n", by_a + by_a));
  EXPECT_TRUE(met("group g 2 a b c\nquorum g\n", by_a + by_b));
  EXPECT_FALSE(met("group g all a b c\nquorum g\n", by_a + by_b));
  EXPECT_TRUE(met("group g any b c\ngroup h all g a\nquorum h\n", by_a + by_b));
  EXPECT_FALSE(met("quorum a\n", cosign(text + "x\n", "a", a, 1)));
  for (const char* bad :
       {"", "quorum a\nquorum b\n", "quorum d\n", "group g 4 a b c\nquorum g\n",
        "group g 0 a b\nquorum g\n", "group g any\nquorum g\n", "group a any b c\nquorum a\n",
        "group g any a\ngroup h any a\nquorum h\n", "nonsense\nquorum a\n", "log x\nquorum a\n"}) {
    EXPECT_FALSE(Policy::parse(witnesses + bad)) << bad;
  }
}

TEST(Dsse, PreAuthenticationEncodingVector) {
  const std::string pae = dsse_pae("http://example.com/HelloWorld", "hello world");
  EXPECT_EQ(pae, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(sha256(pae).hex(), "217751fac2c4f14edb2c9297fbc34abcb016ba88e74757e875ec4ac16fb6b6a1");
}

TEST(Dsse, StatementsRoundTripAndNoByteMayChange) {
  const auto key = parse_skey(kPeterSkey).value();
  SeedKey signing(parse_skey(kPeterSkey).value());
  const std::string bundle = sign_statement("{\"_type\":\"x\"}", signing).value();
  EXPECT_EQ(open_statement(bundle, key.verifier()).value(), "{\"_type\":\"x\"}");
  EXPECT_EQ(open_statement(bundle, vkey(kEnochVkey)).error().code, Errc::tampered);
  Json json = Json::parse(bundle);
  EXPECT_EQ(json["mediaType"], "application/vnd.dev.sigstore.bundle.v0.3+json");
  EXPECT_EQ(json["verificationMaterial"]["publicKey"]["hint"],
            json["dsseEnvelope"]["signatures"][0]["keyid"]);
  json["dsseEnvelope"]["payload"] = to_base64(as_bytes("{\"_type\":\"y\"}"));
  EXPECT_EQ(open_statement(json.dump(), key.verifier()).error().code, Errc::tampered);
  json["dsseEnvelope"]["signatures"].push_back(json["dsseEnvelope"]["signatures"][0]);
  EXPECT_EQ(open_statement(json.dump(), key.verifier()).error().code, Errc::invalid_input);
  for (const char* bad : {"", "{}", "[]", "{\"dsseEnvelope\":7}", "{\"dsseEnvelope\":{}}"}) {
    EXPECT_FALSE(open_statement(bad, key.verifier())) << bad;
  }
}

TEST(Ed25519, WycheproofCases) {
  VERBATIM_NEED_SHARED(path, "data/vectors/wycheproof/ed25519_test.json");
  const Json file = Json::parse(read_file(path, 1 << 24).value());
  int cases = 0;
  for (const Json& group : file.at("testGroups")) {
    const auto key = from_hex(group.at("publicKey").at("pk").get<std::string>()).value();
    for (const Json& test : group.at("tests")) {
      const auto message = from_hex(test.at("msg").get<std::string>()).value();
      const auto signature = from_hex(test.at("sig").get<std::string>()).value();
      EXPECT_EQ(ed25519_verify(key, message, signature), test.at("result") == "valid")
          << test.at("tcId") << " " << test.at("comment");
      ++cases;
    }
  }
  EXPECT_EQ(cases, file.at("numberOfTests"));
}

TEST(Ed25519, EdgeCasesAreDecidedAsByTheReferenceCode) {
  VERBATIM_NEED_SHARED(path, "data/vectors/cctv-ed25519/ed25519vectors.json");
  const Json file = Json::parse(read_file(path, 1 << 24).value());
  int accepted = 0;
  for (const Json& test : file) {
    const auto key = from_hex(test.at("key").get<std::string>()).value();
    const auto signature = from_hex(test.at("sig").get<std::string>()).value();
    accepted += ed25519_verify(key, as_bytes(test.at("msg").get<std::string>()), signature);
  }
  // Debian's OpenSSL 3.0: no cofactor, canonical S, R compared as bytes.
  EXPECT_EQ(file.size(), 914u);
  EXPECT_EQ(accepted, 208);
}

}  // namespace
}  // namespace verbatim::audit
