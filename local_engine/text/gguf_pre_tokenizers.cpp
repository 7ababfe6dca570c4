#include "local_engine/text/gguf_pre_tokenizers.hpp"

#include "local_engine/text/known_patterns.hpp"

#include <algorithm>
#include <array>

namespace verbatim::local_engine {

namespace {

template <std::size_t Size>
bool is_one_of(std::string_view name, const std::array<std::string_view, Size>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 9> kLlama3Names = {"llama3",   "llama-v3",  "llama-bpe",
                                                          "falcon3",  "falcon-h1", "pixtral",
                                                          "midm-2.0", "lfm2",      "jina-v5-nano"};
constexpr std::array<std::string_view, 14> kGpt2Names = {
    "gpt-2",    "phi-2",   "jina-es", "jina-de",     "jina-v2-es", "jina-v2-de", "jina-v2-code",
    "gigachat", "a.x-4.0", "mellum",  "roberta-bpe", "mpt",        "olmo",       "jais"};
constexpr std::array<std::string_view, 7> kDigitsAndGpt2Names = {
    "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"};
constexpr std::array<std::string_view, 4> kQwen2Names = {"qwen2", "deepseek-r1-qwen", "megrez",
                                                         "kormo"};
constexpr std::array<std::string_view, 2> kGpt4oNames = {"gpt-4o", "llama4"};

}  // namespace

std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name) {
  using namespace known_patterns;
  GgufPreTokenizer out;
  if (is_one_of(name, kLlama3Names)) {
    out.patterns = {kLlama3};
    out.ignore_merges = true;
    out.add_bos = true;
  } else if (is_one_of(name, kGpt2Names)) {
    out.patterns = {kGpt2};
  } else if (is_one_of(name, kDigitsAndGpt2Names)) {
    out.patterns = {kDigit, kGpt2};
  } else if (is_one_of(name, kQwen2Names)) {
    out.patterns = {kQwen2};
    out.nfc = true;
  } else if (name == "stablelm2") {
    out.patterns = {kQwen2};
  } else if (name == "qwen35") {
    out.patterns = {kQwen35};
    out.nfc = true;
  } else if (is_one_of(name, kGpt4oNames)) {
    out.patterns = {kGpt4o};
  } else if (name == "tekken") {
    out.patterns = {kTekken};
    out.ignore_merges = true;
    out.add_bos = true;
  } else if (name == "dbrx" || name == "smaug-bpe") {
    out.patterns = {kLlama3};
  } else if (name == "deepseek-llm") {
    out.patterns = {kNewline,     kDeepseekLetters, kDeepseekSymbols, kDeepseekTrailingSpace,
                    kDeepseekCjk, kDigits};
  } else if (name == "deepseek-coder") {
    out.patterns = {kNewline, kDeepseekCoderLetters, kDeepseekCoderPunctuation, kDeepseekCjk,
                    kDigit};
  } else if (name == "deepseek-v3") {
    out.patterns = {kUpToThreeDigits, kDeepseek3Cjk, kDeepseek3Rest};
  } else if (name == "falcon") {
    out.patterns = {kFalconPunctuation, kGpt2, kThreeAsciiDigits};
  } else if (name == "default") {
    out.patterns = {kDefaultPunctuation, kGpt2, kDigits, kThreeAsciiDigits};
  } else {
    return std::nullopt;
  }
  return out;
}

}  // namespace verbatim::local_engine
