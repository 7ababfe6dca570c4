// tokenizer.json: refused, or a tokenizer that keeps its promises.

#include "tests/fuzz/target.hpp"
#include "tests/fuzz/tokenizer_checks.hpp"
#include "tests/local_text/small_tokenizers.hpp"
#include "tests/support/tiny_model.hpp"

namespace verbatim::fuzz {

namespace {

void run(std::string_view input) {
  const auto tokenizer =
      local_engine::parse_tokenizer_json(input, {"<s>", "</s>"}, "tokenizer.json");
  if (!tokenizer) {
    VERBATIM_CHECK(!tokenizer.error().what.empty());
    return;
  }
  check_tokenizer(**tokenizer, "Hello hello 12345 \xE2\x96\x81na\xC3\xAFve \xFF\xFE<s> x\n\n y");
  check_tokenizer(**tokenizer, "");
}

std::vector<std::string> seeds() {
  Json unigram = test::bpe_json({}, {});
  unigram["model"] = {
      {"type", "Unigram"},
      {"unk_id", 0},
      {"byte_fallback", false},
      {"vocab", Json::array({Json::array({"<unk>", 0.0}), Json::array({"\xE2\x96\x81", -1.5}),
                             Json::array({"h", -2.0}), Json::array({"he", -2.5})})}};
  unigram["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "NFKC"}},
        {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}},
        {{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}},
        {{"type", "Lowercase"}}}}};
  unigram["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "always"}};
  unigram["decoder"] = {{"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}};
  Json spm = test::bpe_json(test::spm_tokens({"h", "e", "he"}), {{"h", "e"}});
  spm["model"]["byte_fallback"] = true;
  spm["model"]["unk_token"] = "<unk>";
  spm["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", "\xE2\x96\x81"}}}, {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  Json split = test::bpe_json({"h", "e", "l", "o", "he"}, {{"h", "e"}});
  split["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "(?i:'s|'t)|\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "Punctuation"}, {"behavior", "Isolated"}}}}};
  return {test::byte_level_json().dump(), unigram.dump(), spm.dump(), split.dump(),
          test::tiny_tokenizer(20)};
}

const Registration kTokenizerJson({"tokenizer_json",
                                   run,
                                   seeds,
                                   {"\"type\":\"",
                                    "\"Regex\":\"",
                                    "\"String\":\"\"",
                                    "\"Split\"",
                                    "\"ByteLevel\"",
                                    "\"Unigram\"",
                                    "\"Precompiled\"",
                                    "\"behavior\":\"MergedWithNext\"",
                                    "\"invert\":true",
                                    "(a+)+$",
                                    "(?<=x)",
                                    "\\\\p{",
                                    "{1,9999}",
                                    "[^",
                                    "(?i)",
                                    "\"fuse_unk\":true",
                                    "\"ignore_merges\":true",
                                    "\"id\":2147483647",
                                    "-1",
                                    "null",
                                    "\"normalized\":true",
                                    "\"lstrip\":true",
                                    "1e300",
                                    "\"special\":true"}});

}  // namespace

}  // namespace verbatim::fuzz
