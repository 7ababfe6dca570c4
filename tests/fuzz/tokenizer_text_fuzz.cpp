// Hostile texts, encoded and decoded by fixed tokenizers of every kind.

#include "schema/bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/tokenizer_checks.hpp"
#include "tests/local_text/small_tokenizers.hpp"

#include <array>

namespace verbatim::fuzz {

namespace {

using local_engine::TokenId;
using local_engine::Tokenizer;

struct Fixed {
  std::shared_ptr<const Tokenizer> byte_level = test::load(test::byte_level_json());
  std::shared_ptr<const Tokenizer> spm =
      test::load(test::spm_gguf({"\xE2\x96\x81", "h", "e", "he", "\xE2\x96\x81he", "l"},
                                {-1, -2, -3, -4, -5, -6}))
          .value();
  std::shared_ptr<const Tokenizer> unigram = [] {
    Json json = test::bpe_json({}, {});
    json["model"] = {
        {"type", "Unigram"},
        {"unk_id", 0},
        {"vocab", Json::array({Json::array({"<unk>", 0.0}), Json::array({"\xE2\x96\x81", -1.5}),
                               Json::array({"h", -2.0}), Json::array({"he", -2.5})})}};
    json["normalizer"] = {{"type", "NFKC"}};
    json["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "first"}};
    return test::load(json);
  }();
};

const Fixed& fixed() {
  static const Fixed all;
  return all;
}

void run(std::string_view text) {
  check_tokenizer(*fixed().byte_level, text);
  check_tokenizer(*fixed().spm, text);
  check_tokenizer(*fixed().unigram, text);
  const auto ids = fixed().byte_level->encode(text, {false, true});
  VERBATIM_CHECK(ids.has_value());
  if (is_utf8(text)) VERBATIM_CHECK(fixed().byte_level->decode(*ids, false) == text);
  // Any ids in any order, streamed, are the text that they are as a whole.
  std::vector<TokenId> any;
  for (const char c : text.substr(0, 300)) any.push_back(static_cast<std::uint8_t>(c) + 10);
  for (const Tokenizer* tokenizer : {fixed().byte_level.get(), fixed().spm.get()}) {
    const auto stream = tokenizer->decode_stream(true);
    std::string joined;
    for (const TokenId id : any) joined += stream->push(id);
    joined += stream->finish();
    VERBATIM_CHECK(joined == tokenizer->decode(any, true));
  }
}

std::vector<std::string> seeds() {
  return {
      "hello hello, he'll say hell \xE2\x96\x81 12345\n\n\t  x<|end|>y<tool>",
      "na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80\xEF\xB8\x8F e\xCC\x81 \xEF\xAC\x81",
      "\xFF\xFE\x80\xC2\xE2\x96\xF0\x9F<0xFF><s></s>",
      std::string(500, 'h') + std::string(300, ' '),
      std::string("\x00\x01\x7f\xED\xA0\x80\xED\xB2\x80", 9)};
}

const Registration kTokenizerText({"tokenizer_text",
                                   run,
                                   seeds,
                                   {"<|end|>", "<tool>", "</s>", "<0x0A>", "\xE2\x96\x81",
                                    "\xCC\x81", "\xED\xB2\x80", "\xEF\xBF\xBD", "\xF4\x8F\xBF\xBF",
                                    "\xC2\xA0", "hello", "\r\n"}});

}  // namespace

}  // namespace verbatim::fuzz
