// The tokenizer's rules, on vocabularies small enough to work the results out by hand.

#include "local_engine/tokenizer.hpp"

#include "local_engine/text/normalizer.hpp"
#include "schema/file.hpp"
#include "tests/local_text/small_tokenizers.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <random>

namespace verbatim::local_engine {
namespace {

using test::bpe_json;
using test::byte_level_json;
using test::fault;
using test::load;
using Ids = std::vector<TokenId>;

constexpr EncodeOptions kPlain{.add_special = false, .parse_special = true};

Ids encode(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view text,
           const EncodeOptions& options = kPlain) {
  return tokenizer->encode(text, options).value();
}

std::string stream(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer, false);
  std::string out;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(is_utf8(piece)) << "a piece ends inside a character";
    out += piece;
  }
  return out + decoder.finish();
}

TEST(Bpe, MergesTheLowestRankFirstAndOfEqualsTheLeftmost) {
  // "ab" outranks "bc", so abc is ab + c although bc stands further right.
  const auto tokenizer =
      load(bpe_json({"a", "b", "c", "ab", "bc", "aa"}, {{"a", "b"}, {"b", "c"}, {"a", "a"}}));
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{3, 2}));
  EXPECT_EQ(encode(tokenizer, "cbc"), (Ids{2, 4}));
  EXPECT_EQ(encode(tokenizer, "aaa"), (Ids{5, 0}));
}

TEST(Bpe, LongPiecesMergeAsShortOnesDo) {
  // The same rules above and below the length where the algorithm changes.
  const auto tokenizer = load(bpe_json({"a", "b", "ab", "abab", "ba", "aa"},
                                       {{"a", "b"}, {"ab", "ab"}, {"b", "a"}, {"a", "a"}}));
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::size_t i = random() % 30 + 1; i > 0; --i) text += random() % 2 == 0 ? 'a' : 'b';
    const Ids short_ids = encode(tokenizer, text);
    // A "c" that is no token is dropped, but ends every merge: the long piece is the short one many times.
    Json json = bpe_json({"a", "b", "ab", "abab", "ba", "aa", "c"},
                         {{"a", "b"}, {"ab", "ab"}, {"b", "a"}, {"a", "a"}});
    const auto with_c = load(json);
    std::string long_text;
    Ids expected;
    for (int i = 0; i < 5; ++i) {
      long_text += text + "c";
      expected.insert(expected.end(), short_ids.begin(), short_ids.end());
      expected.push_back(6);
    }
    EXPECT_EQ(encode(with_c, long_text), expected) << text;
  }
}

TEST(Bpe, ReadsMergesAsTextsToo) {
  Json json = bpe_json({"a", "b", "ab"}, {});
  json["model"]["merges"] = {"#version: 0.2", "a b"};
  EXPECT_EQ(encode(load(json), "ab"), (Ids{2}));
}

TEST(Bpe, UnknownCharactersBecomeBytesOrUnkOrNothing) {
  Json json = bpe_json({"a", "<unk>"}, {});
  EXPECT_EQ(encode(load(json), "a\xc3\xa9\xc3\xa9"), (Ids{0}));
  json["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(encode(load(json), "a\xc3\xa9\xc3\xa9"), (Ids{0, 1, 1}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(encode(load(json), "a\xc3\xa9\xc3\xa9"), (Ids{0, 1}));
  Json bytes = bpe_json(test::spm_tokens({"a"}), {});
  bytes["model"]["byte_fallback"] = true;
  EXPECT_EQ(encode(load(bytes), "a\xc3\xa9"), (Ids{259, 3 + 0xc3, 3 + 0xa9}));
}

TEST(Bpe, IgnoreMergesTakesAPieceThatIsATokenWhole) {
  Json json = bpe_json({"a", "b", "c", "bc", "abc"}, {{"b", "c"}});
  EXPECT_EQ(encode(load(json), "abc"), (Ids{0, 3}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(load(json), "abc"), (Ids{4}));
}

TEST(Bpe, MarksWithinAndAtTheEndOfWords) {
  Json json = bpe_json({"a", "##b", "##b</w>", "a</w>"}, {});
  json["model"]["continuing_subword_prefix"] = "##";
  json["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_EQ(encode(load(json), "abb"), (Ids{0, 1, 2}));
  EXPECT_EQ(encode(load(json), "a"), (Ids{3}));
}

TEST(Bpe, CutsAtSpacesChangeNothing) {
  // "b" + U+2581 is within a token, so no cut may be made there; "a" + U+2581 is not.
  const std::string space = "\xe2\x96\x81";
  const auto tokenizer = load(bpe_json({"a", "b", space, space + "a", "b" + space, "ab"},
                                       {{"b", space}, {space, "a"}, {"a", "b"}}));
  EXPECT_EQ(encode(tokenizer, "a" + space + "a"), (Ids{0, 3}));
  EXPECT_EQ(encode(tokenizer, "b" + space + "a"), (Ids{4, 0}));
}

TEST(ByteLevel, GivesEveryByteAToken) {
  const auto tokenizer = load(byte_level_json());
  EXPECT_EQ(encode(tokenizer, "hello"), (Ids{259}));
  EXPECT_EQ(encode(tokenizer, "hello hello"), (Ids{259, 260}));
  EXPECT_EQ(encode(tokenizer, "\xc3\xa9"), (Ids{0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->decode({259, 260, 0xc3, 0xa9}, false), "hello hello\xc3\xa9");
}

TEST(ByteLevel, BytesThatAreNotUtf8GoThroughUnchanged) {
  const auto tokenizer = load(byte_level_json());
  EXPECT_EQ(encode(tokenizer, "hello\xff\xfe"), (Ids{259, 0xff, 0xfe}));
  EXPECT_EQ(encode(tokenizer, "\x80"), (Ids{0x80}));
  EXPECT_EQ(encode(tokenizer, "\xed\xb3\xbf"), (Ids{0xed, 0xb3, 0xbf}));  // an encoded surrogate
  EXPECT_EQ(encode(tokenizer, "\xe2\x82"), (Ids{0xe2, 0x82}));            // cut short
}

TEST(ByteLevel, AnInvalidByteWithoutATokenIsRefused) {
  const auto tokenizer = load(bpe_json({"a"}, {}));
  EXPECT_EQ(tokenizer->encode("a\xff", kPlain).error().code, Errc::invalid_input);
}

TEST(ByteLevel, DecodingReplacesWhatIsNotUtf8) {
  const auto tokenizer = load(byte_level_json());
  EXPECT_EQ(tokenizer->decode({'a', 0xe2, 0x82, 'b'}, false),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(tokenizer->decode({0xff, 0xff}, false), "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Streaming, NoPieceEndsInsideACharacterAndTheWholeIsDecode) {
  const auto tokenizer = load(byte_level_json());
  StreamDecoder decoder(tokenizer, false);
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.push(0x9f), "");
  EXPECT_EQ(decoder.push(0xa4), "");
  EXPECT_EQ(decoder.push(0x94), "\xf0\x9f\xa4\x94");
  EXPECT_EQ(decoder.push('x'), "x");
  EXPECT_EQ(decoder.push(0xe2), "");
  EXPECT_EQ(decoder.finish(), "\xef\xbf\xbd");
}

TEST(Streaming, AnySequenceOfIdsStreamsToWhatItDecodesTo) {
  Json fallback = bpe_json(test::spm_tokens({"\xe2\x96\x81"
                                             "a",
                                             "b", "\xe2\x96\x81"}),
                           {});
  fallback["model"]["byte_fallback"] = true;
  fallback["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", "\xe2\x96\x81"}}}, {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}}}}};
  Json metaspace = fallback;
  metaspace["decoder"] = {
      {"type", "Metaspace"}, {"replacement", "\xe2\x96\x81"}, {"prepend_scheme", "always"}};
  Json none = fallback;
  none["decoder"] = nullptr;
  Json suffix = fallback;
  suffix["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "b"}};
  std::mt19937 random(11);
  for (const Json& json : {byte_level_json(), fallback, metaspace, none, suffix}) {
    const auto tokenizer = load(json);
    for (int round = 0; round < 500; ++round) {
      Ids ids;
      for (std::size_t i = random() % 12; i > 0; --i) {
        const std::size_t most = tokenizer->vocab_size() + 3;  // some out of range
        ids.push_back(
            static_cast<TokenId>(random() % 3 == 0 ? most - 1 - random() % 6 : random() % most));
      }
      EXPECT_EQ(stream(tokenizer, ids), tokenizer->decode(ids, false));
    }
  }
}

TEST(Decoders, ARunOfByteTokensIsTextOnlyAsAWhole) {
  Json json = bpe_json(test::spm_tokens({}), {});
  json["decoder"] = {{"type", "ByteFallback"}};
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->decode({3 + 0xc3, 3 + 0xa9}, false), "\xc3\xa9");
  // One bad byte spoils the run: each byte becomes a replacement character.
  EXPECT_EQ(tokenizer->decode({3 + 0xc3, 3 + 0xa9, 3 + 0xff}, false),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Decoders, StripTakesOneSpaceOnly) {
  Json json = bpe_json({"\xe2\x96\x81", "a"}, {});
  json["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", "\xe2\x96\x81"}}}, {"content", " "}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  EXPECT_EQ(load(json)->decode({0, 0, 1}, false), " a");
}

TEST(SpecialTokens, AreFoundInTextOnlyWhenAsked) {
  const auto tokenizer = load(byte_level_json());
  EXPECT_EQ(encode(tokenizer, "hello<|end|>"), (Ids{259, 261}));
  const Ids plain = encode(tokenizer, "<|end|>", {.add_special = false, .parse_special = false});
  EXPECT_EQ(plain, (Ids{'<', '|', 'e', 'n', 'd', '|', '>'}));
  // An added token that is not special is one token in any case.
  EXPECT_EQ(encode(tokenizer, "<tool>", {.add_special = false, .parse_special = false}),
            (Ids{262}));
  EXPECT_EQ(encode(tokenizer, "hello", {}), (Ids{259, 261}));
  EXPECT_EQ(tokenizer->decode({259, 261, 262}, true), "hello<tool>");
  EXPECT_TRUE(tokenizer->is_special(261));
  EXPECT_FALSE(tokenizer->is_special(262));
  EXPECT_EQ(tokenizer->token_text(261), "<|end|>");
  EXPECT_EQ(tokenizer->token_id("<|end|>"), 261);
  EXPECT_EQ(tokenizer->vocab_size(), 263U);
}

TEST(AddedTokens, TheLongestWinsAndTheirFlagsHold) {
  Json json = bpe_json({"a", "b", " "}, {});
  const auto token = [](int id, const char* content, Json more) {
    more["id"] = id;
    more["content"] = content;
    return more;
  };
  json["added_tokens"] = {token(3, "<x>", {{"normalized", false}}),
                          token(4, "<x><y>", {{"normalized", false}}),
                          token(5, "[L]", {{"lstrip", true}, {"normalized", false}}),
                          token(6, "[R]", {{"rstrip", true}, {"normalized", false}}),
                          token(7, "ab", {{"single_word", true}, {"normalized", false}})};
  const auto tokenizer = load(json);
  EXPECT_EQ(encode(tokenizer, "<x><x><y>"), (Ids{3, 4}));
  EXPECT_EQ(encode(tokenizer, "a  [L] a"), (Ids{0, 5, 2, 0}));
  EXPECT_EQ(encode(tokenizer, "a [R]  a"), (Ids{0, 2, 6, 0}));
  EXPECT_EQ(encode(tokenizer, "a ab a"), (Ids{0, 2, 7, 2, 0}));
  EXPECT_EQ(encode(tokenizer, "aab"), (Ids{0, 0, 1}));
}

TEST(AddedTokens, NormalizedOnesAreFoundInTheNormalizedText) {
  Json json = bpe_json({"a", "b"}, {});
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"] = {{{"id", 2}, {"content", "<B>"}, {"normalized", true}},
                          {{"id", 3}, {"content", "<C>"}, {"normalized", false}}};
  const auto tokenizer = load(json);
  EXPECT_EQ(encode(tokenizer, "A<b><B>"), (Ids{0, 2, 2}));
  EXPECT_EQ(encode(tokenizer, "<C>"), (Ids{3}));
  EXPECT_EQ(encode(tokenizer, "<c>"), Ids{});
}

/// The pieces that a pre-tokenizer makes, seen through a vocabulary in which every piece is an unknown word.
std::string pieces(const Json& pre_tokenizer, std::string_view text,
                   const Json& normalizer = nullptr) {
  // With each letter a token and no merges, the cuts do not show; with end-of-word marks they do.
  std::vector<std::string> tokens;
  for (char c = ' '; c < 127; ++c) {
    tokens.push_back(std::string(1, c));
    tokens.push_back(std::string(1, c) + "|");
  }
  tokens.emplace_back("\xe2\x96\x81");
  tokens.emplace_back("\xe2\x96\x81|");
  Json json = bpe_json(tokens, {});
  json["model"]["end_of_word_suffix"] = "|";
  json["pre_tokenizer"] = pre_tokenizer;
  json["normalizer"] = normalizer;
  json["decoder"] = {{"type", "Fuse"}};
  const auto tokenizer = load(json);
  return tokenizer->decode(tokenizer->encode(text, kPlain).value(), false);
}

Json split(const char* pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", behavior},
          {"invert", invert}};
}

TEST(PreTokenizers, SplitHasFiveBehaviors) {
  EXPECT_EQ(pieces(split("-", "Isolated"), "a-b--c"), "a|-|b|-|-|c|");
  EXPECT_EQ(pieces(split("-", "Removed"), "a-b--c"), "a|b|c|");
  EXPECT_EQ(pieces(split("-", "MergedWithPrevious"), "a-b--c"), "a-|b-|-|c|");
  EXPECT_EQ(pieces(split("-", "MergedWithNext"), "a-b--c"), "a|-b|-|-c|");
  EXPECT_EQ(pieces(split("-", "Contiguous"), "a-b--c"), "a|-|b|--|c|");
  EXPECT_EQ(pieces(split("[a-z]+", "Removed", true), "ab--c"), "ab|c|");
}

TEST(PreTokenizers, DigitsPunctuationAndWhiteSpace) {
  EXPECT_EQ(pieces({{"type", "Digits"}, {"individual_digits", false}}, "ab12c"), "ab|12|c|");
  EXPECT_EQ(pieces({{"type", "Digits"}, {"individual_digits", true}}, "ab12c"), "ab|1|2|c|");
  EXPECT_EQ(pieces({{"type", "Punctuation"}}, "a,b!!"), "a|,|b|!|!|");
  EXPECT_EQ(pieces({{"type", "Whitespace"}}, "a b,c  d"), "a|b|,|c|d|");
  EXPECT_EQ(pieces({{"type", "WhitespaceSplit"}}, "a b,c  d"), "a|b,c|d|");
  EXPECT_EQ(pieces({{"type", "BertPreTokenizer"}}, "a b,c"), "a|b|,|c|");
  EXPECT_EQ(pieces({{"type", "CharDelimiterSplit"}, {"delimiter", "x"}}, "axxb"), "a|b|");
}

TEST(PreTokenizers, MetaspaceMarksSpacesAndMayPutOneInFront) {
  const std::string space = "\xe2\x96\x81";
  const auto metaspace = [&](const char* scheme, bool cut) {
    return Json{
        {"type", "Metaspace"}, {"replacement", space}, {"prepend_scheme", scheme}, {"split", cut}};
  };
  EXPECT_EQ(pieces(metaspace("always", true), "a b"), space + "a|" + space + "b|");
  EXPECT_EQ(pieces(metaspace("never", true), "a b"), "a|" + space + "b|");
  EXPECT_EQ(pieces(metaspace("always", false), "a b"), space + "a" + space + "b|");
  EXPECT_EQ(pieces(metaspace("always", true), " a"), space + "a|");
}

TEST(Patterns, MeanWhatTheyMeanInOniguruma) {
  // Possessive in PCRE2, a repeated group in Oniguruma: all four digits are one match.
  EXPECT_EQ(pieces(split("[0-9]{1,3}+", "Isolated"), "1234a"), "1234|a|");
  EXPECT_EQ(pieces(split("[0-9]{,2}a", "Isolated"), "123a"), "1|23a|");
  EXPECT_EQ(pieces(split("\\h+", "Isolated"), "xfacex"), "x|face|x|");
  EXPECT_EQ(pieces(split("^b", "Isolated"), "ab"), "ab|");
  // (?i:s) also matches U+017F, which is no token here and so leaves only the cut.
  EXPECT_EQ(pieces(split("(?i:'s)", "Isolated"), "a'Sb"), "a|'S|b|");
  EXPECT_EQ(pieces(split("(?i:'s)", "Removed"),
                   "a'\xc5\xbf"
                   "b"),
            "a|b|");
  // U+180E has not been white space since Unicode 6.3, but is in PCRE2's \s.
  EXPECT_EQ(pieces(split("\\s", "Removed"),
                   "a\xe1\xa0\x8e"
                   "b"),
            "ab|");
  EXPECT_EQ(pieces(split("\\s", "Removed"),
                   "a\xc2\x85"
                   "b"),
            "a|b|");
}

TEST(Patterns, WhatIsNotRewrittenIsRefusedByName) {
  const auto refused = [](const char* pattern) {
    Json json = bpe_json({"a"}, {});
    json["pre_tokenizer"] = split(pattern, "Isolated");
    return fault(json);
  };
  EXPECT_EQ(refused("[a-z&&[^b]]"), "pattern has an intersection of classes");
  EXPECT_EQ(refused("[[:alpha:]]"), "pattern has a class within a class");
  EXPECT_EQ(refused("(a)\\1"), "pattern escape \\1 is not supported");
  EXPECT_EQ(refused("(?x: a)"), "pattern group (?x is not supported");
  EXPECT_EQ(refused("(a"), "pattern has an unclosed group");
  EXPECT_NE(refused("\\p{NoSuchThing}"), "no error");
}

TEST(Patterns, AHostilePatternEndsWithAnErrorAndNotInForever) {
  Json json = bpe_json({"a", "b"}, {});
  json["pre_tokenizer"] = split("(a+)+$", "Isolated");
  const auto result = load(json)->encode(std::string(5000, 'a') + "b", kPlain);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::invalid_input);
}

TEST(Normalizers, ChangeTheTextBeforeItIsSplit) {
  const auto normalized = [](const Json& normalizer, std::string_view text) {
    return pieces(nullptr, text, normalizer);
  };
  EXPECT_EQ(normalized({{"type", "Lowercase"}}, "AbC"), "abc|");
  EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " a "),
            "a |");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "x"}}, "a"), "xa|");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "x"}}, ""), "");
  EXPECT_EQ(
      normalized({{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", "xy"}}, "abc"),
      "axyc|");
  EXPECT_EQ(
      normalized({{"type", "Replace"}, {"pattern", {{"Regex", "b+"}}}, {"content", ""}}, "abbc"),
      "ac|");
  EXPECT_EQ(normalized({{"type", "NFKC"}}, "\xef\xac\x81"), "fi|");
  EXPECT_EQ(normalized({{"type", "Sequence"},
                        {"normalizers", {{{"type", "NFD"}}, {{"type", "StripAccents"}}}}},
                       "\xc3\xa9"),
            "e|");
}

TEST(Normalizers, NfcComposesWhatNfdTakesApart) {
  EXPECT_EQ(normalize_unicode("e\xcc\x81", UnicodeForm::nfc), "\xc3\xa9");
  EXPECT_EQ(normalize_unicode("\xc3\xa9", UnicodeForm::nfd), "e\xcc\x81");
  // Marks come in the order of their classes, whatever order they were written in.
  EXPECT_EQ(normalize_unicode("a\xcc\x81\xcc\xa3", UnicodeForm::nfd), "a\xcc\xa3\xcc\x81");
  EXPECT_EQ(normalize_unicode("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", UnicodeForm::nfc),
            "\xea\xb0\x81");
}

TEST(Unigram, TakesTheWayWithTheHighestScore) {
  Json json = bpe_json({}, {});
  json["model"] = {
      {"type", "Unigram"},
      {"unk_id", 0},
      {"vocab",
       Json::parse(
           R"([["<unk>", 0], ["a", -1], ["b", -1], ["ab", -1.5], ["abc", -9], ["c", -1]])")}};
  EXPECT_EQ(encode(load(json), "ab"), (Ids{3}));
  EXPECT_EQ(encode(load(json), "abc"), (Ids{3, 5}));
  EXPECT_EQ(encode(load(json), "a??b"), (Ids{1, 0, 2}));  // neighbouring unknowns are one
  json["model"]["unk_id"] = nullptr;
  EXPECT_FALSE(load(json)->encode("?", kPlain));
}

TEST(Loading, APostProcessorAddsTokensOfTheVocabularyOnly) {
  Json json = bpe_json({"a", "b"}, {});
  json["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]", 2}}};
  EXPECT_EQ(fault(json), "tokenizer.json: the post-processor's id 2 is no token's");
  json["added_tokens"] = {{{"id", 2}, {"content", "[SEP]"}, {"special", true}}};
  EXPECT_EQ(fault(json), "no error");
}

TEST(Loading, WhatIsNotSupportedIsRefusedByName) {
  const auto with = [](const char* part, const Json& value) {
    Json json = bpe_json({"a"}, {});
    json[part] = value;
    return fault(json);
  };
  EXPECT_EQ(with("normalizer", {{"type", "Precompiled"}}),
            "normalizer Precompiled is not supported");
  EXPECT_EQ(with("pre_tokenizer", {{"type", "UnicodeScripts"}}),
            "pre-tokenizer UnicodeScripts is not supported");
  EXPECT_EQ(with("decoder", {{"type", "CTC"}}), "decoder CTC is not supported");
  EXPECT_EQ(with("post_processor", {{"type", "Other"}}), "post-processor Other is not supported");
  EXPECT_EQ(with("model", {{"type", "WordPiece"}}), "model WordPiece is not supported");
  Json dropout = bpe_json({"a"}, {});
  dropout["model"]["dropout"] = 0.1;
  EXPECT_EQ(fault(dropout), "BPE dropout is not supported");
}

TEST(Loading, MalformedFilesAreRefused) {
  EXPECT_EQ(parse_tokenizer_json("{", {}, "x").error().code, Errc::invalid_input);
  EXPECT_EQ(parse_tokenizer_json("[]", {}, "x").error().what, "tokenizer.json is not an object");
  EXPECT_EQ(parse_tokenizer_json(R"({"a":1,"a":2})", {}, "x").error().what,
            "tokenizer.json: 'a' occurs twice");
  EXPECT_EQ(parse_tokenizer_json(std::string(1000, '['), {}, "x").error().what,
            "tokenizer.json is nested too deeply");
  Json merge = bpe_json({"a"}, {{"a", "b"}});
  EXPECT_EQ(fault(merge), "merge 0 names a token that is not in the vocabulary");
  Json made = bpe_json({"a", "b"}, {{"a", "b"}});
  EXPECT_EQ(fault(made), "merge 0 makes a token that is not in the vocabulary");
  Json huge = bpe_json({"a"}, {});
  huge["model"]["vocab"]["b"] = 2147483647;
  EXPECT_EQ(fault(huge), "tokenizer.json: the id of 'b' is too large");
  Json contradiction = bpe_json({"a", "b"}, {});
  contradiction["added_tokens"] = {{{"id", 1}, {"content", "c"}}};
  EXPECT_EQ(fault(contradiction), "tokenizer.json: added token 'c' contradicts the vocabulary");
}

TEST(Loading, TakesBosAndEosFromTheFilesBesideIt) {
  const auto folder = test::fresh_dir();
  ASSERT_TRUE(write_file(folder / "tokenizer.json", byte_level_json().dump()));
  EXPECT_EQ(Tokenizer::load(folder).value()->eos(), std::nullopt);
  ASSERT_TRUE(write_file(folder / "tokenizer_config.json",
                         R"({"eos_token": {"content": "<|end|>"}, "bos_token": null})"));
  const auto tokenizer = Tokenizer::load(folder).value();
  EXPECT_EQ(tokenizer->eos(), 261);
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_EQ(tokenizer->sha256(), sha256(byte_level_json().dump()));
  EXPECT_EQ(Tokenizer::load(folder / "none").error().code, Errc::not_found);
}

TEST(GgufSpm, MergesByScoreAndFallsBackToBytes) {
  const std::string space = "\xe2\x96\x81";
  auto writer = test::spm_gguf({space, "a", "b", "ab", space + "a", "c"}, {-9, -9, -9, -1, -2, -9});
  const auto tokenizer = load(writer).value();
  // "ab" scores higher than the space with "a".
  EXPECT_EQ(encode(tokenizer, "ab"), (Ids{259, 262}));
  EXPECT_EQ(encode(tokenizer, "a"), (Ids{263}));
  EXPECT_EQ(encode(tokenizer, "a\xc3\xa9"), (Ids{263, 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(encode(tokenizer, "a\xff"), (Ids{263, 3 + 0xff}));
  EXPECT_EQ(encode(tokenizer, "a", {}), (Ids{1, 263}));
  EXPECT_EQ(encode(tokenizer, "a</s>a"), (Ids{263, 2, 263}));
  EXPECT_EQ(encode(tokenizer, "<s>", {.add_special = false, .parse_special = false}),
            (Ids{259, 3 + '<', 3 + 's', 3 + '>'}));
  EXPECT_EQ(tokenizer->decode({1, 263, 262}, true), "aab");
  EXPECT_EQ(tokenizer->decode({3 + 0xc3, 3 + 0xa9}, false), "\xc3\xa9");
  writer.boolean("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(encode(load(writer).value(), "a"), (Ids{260}));
}

test::GgufWriter bpe_gguf(const char* pre) {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_character(static_cast<unsigned char>(byte)));
    tokens.push_back(text);
  }
  for (const char* text : {"ab", "12", "123", "1234", "<|user|>"}) tokens.emplace_back(text);
  std::vector<std::int32_t> types(tokens.size(), 1);
  types.back() = 3;
  test::GgufWriter out;
  out.text("tokenizer.ggml.model", "gpt2");
  out.text("tokenizer.ggml.pre", pre);
  out.texts("tokenizer.ggml.tokens", tokens);
  out.integers("tokenizer.ggml.token_type", types);
  out.texts("tokenizer.ggml.merges", {"a b", "1 2", "12 3", "123 4"});
  return out;
}

TEST(GgufBpe, TheNamedPreTokenizerDecidesTheCuts) {
  EXPECT_EQ(encode(load(bpe_gguf("gpt-2")).value(), "1234"), (Ids{259}));
  EXPECT_EQ(encode(load(bpe_gguf("llama-bpe")).value(), "1234"), (Ids{258, '4'}));
  EXPECT_EQ(encode(load(bpe_gguf("qwen2")).value(), "1234"), (Ids{'1', '2', '3', '4'}));
  EXPECT_EQ(encode(load(bpe_gguf("gpt-2")).value(), "ab<|user|>\xff"), (Ids{256, 260, 0xff}));
}

TEST(GgufBpe, UnknownNamesAreRefused) {
  EXPECT_EQ(load(bpe_gguf("something-new")).error().what,
            "pre-tokenizer something-new is not supported");
  EXPECT_EQ(load(bpe_gguf("something-new")).error().code, Errc::unsupported);
  EXPECT_EQ(load(bpe_gguf("")).error().what,
            "a gpt2 vocabulary without tokenizer.ggml.pre is not supported");
  test::GgufWriter other;
  other.text("tokenizer.ggml.model", "rwkv");
  EXPECT_EQ(load(other).error().what, "tokenizer model rwkv is not supported");
}

TEST(GgufBpe, ArraysThatDoNotFitTogetherAreRefused) {
  test::GgufWriter out;
  out.text("tokenizer.ggml.model", "llama");
  out.texts("tokenizer.ggml.tokens", {"a", "b"});
  out.floats("tokenizer.ggml.scores", {0});
  EXPECT_EQ(load(out).error().what, "the arrays of the GGUF vocabulary differ in size");
}

TEST(Hostile, OneMillionOfTheSameCharacterIsNoTrouble) {
  // Quadratic time would take hours.
  const auto bytes = load(byte_level_json());
  Json fallback = bpe_json(test::spm_tokens({"a", "aa", "aaaa"}), {{"a", "a"}, {"aa", "aa"}});
  fallback["model"]["byte_fallback"] = true;
  const auto spm =
      load(test::spm_gguf({"\xe2\x96\x81", "a", "aa", "aaaa"}, {-1, -2, -3, -4})).value();
  const std::size_t size = 1'000'000;
  for (const char c : {'a', ' ', '\n', '<', '7', '\''}) {
    EXPECT_EQ(encode(bytes, std::string(size, c)).size(), size);
  }
  EXPECT_EQ(encode(load(fallback), std::string(size, 'a')).size(), size / 4);
  EXPECT_EQ(encode(spm, std::string(size, 'a')).size(), size / 4 + 1);
  std::string marks = "a";
  for (std::size_t i = 0; i < 200'000; ++i) marks += "\xcc\x81";
  for (std::size_t i = 0; i < 200'000; ++i) marks += "\xcc\xa3";
  const std::string composed = normalize_unicode(marks, UnicodeForm::nfc);
  EXPECT_TRUE(
      composed.starts_with("\xe1\xba\xa1\xcc\xa3"));  // a with a dot below, as it sorts first
  EXPECT_EQ(composed.size(), marks.size());
}

TEST(Hostile, MutatedTokenizerFilesNeverCrash) {
  std::mt19937 random(5);
  Json spm = bpe_json(test::spm_tokens({"a", "b"}), {});
  spm["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", {{{"type", "Prepend"}, {"prepend", "x"}}, {{"type", "NFC"}}}}};
  spm["decoder"] = {{"type", "Sequence"},
                    {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  for (const Json& json : {byte_level_json(), spm}) {
    const std::string file = json.dump();
    for (int round = 0; round < 1500; ++round) {
      std::string copy = file;
      for (std::size_t n = random() % 3 + 1; n > 0; --n) {
        const std::size_t at = random() % copy.size();
        switch (random() % 4) {
          case 0:
            copy[at] = static_cast<char>(random());
            break;
          case 1:
            copy.erase(at, random() % 20);
            break;
          case 2:
            copy.insert(at, copy.substr(random() % copy.size(), random() % 30));
            break;
          default:
            copy[at] = "{}[],:\"0123456789"[random() % 17];
        }
      }
      const auto loaded = parse_tokenizer_json(copy, {}, "x");
      if (!loaded) continue;
      const auto ids = (*loaded)->encode("hello <|end|> \xc3\xa9\xff", {});
      if (ids) static_cast<void>((*loaded)->decode(*ids, false));
    }
  }
}

TEST(Hostile, AnyBytesEncodeAndDecodeWithoutACrash) {
  const auto bytes = load(byte_level_json());
  const auto spm = load(test::spm_gguf({"\xe2\x96\x81", "a"}, {-1, -2})).value();
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t i = random() % 40; i > 0; --i) {
      text += static_cast<char>(random() % 3 == 0 ? random() % 128 : random());
    }
    for (const auto& tokenizer : {bytes, spm}) {
      const Ids ids = encode(tokenizer, text);
      const std::string decoded = tokenizer->decode(ids, false);
      EXPECT_TRUE(is_utf8(decoded));
      if (is_utf8(text)) {
        EXPECT_EQ(decoded, text);
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::local_engine
