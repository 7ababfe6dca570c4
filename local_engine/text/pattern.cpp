#include "local_engine/text/pattern.hpp"

#include "local_engine/text/json_fields.hpp"
#include "local_engine/text/known_patterns.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace verbatim::local_engine {

namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

constexpr std::size_t kPatternBytesMax = std::size_t{64} * 1024;
constexpr std::size_t kJitStackMin = std::size_t{64} * 1024;
constexpr std::size_t kJitStackMax = std::size_t{16} * 1024 * 1024;
constexpr std::uint32_t kHeapKibMax = 256 * 1024;

/// Steps that one match may take in a pattern that is not known to be linear.
std::uint32_t step_limit(std::size_t left) {
  return static_cast<std::uint32_t>(std::min<std::size_t>(100'000 + 64 * left, 400'000'000));
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[160];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Pattern::Code {
  Owned<pcre2_code> code;
  bool linear = false;
};

Pattern Pattern::literal(std::string text) {
  if (text.empty()) malformed("pattern is empty");
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(std::string_view oniguruma) {
  if (oniguruma.size() > kPatternBytesMax) malformed("pattern is longer than 64 KiB");
  const std::string translated = translate_pattern(oniguruma);
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  // In Oniguruma ^ and $ match at every line.
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &error, &offset, context.get()));
  if (code->code == nullptr) {
    const bool unknown_property = error == PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY;
    throw Fault{unknown_property ? Errc::unsupported : Errc::invalid_input,
                "pattern '" + std::string(oniguruma) + "': " + pcre2_message(error)};
  }
  using known_patterns::kLinear;
  code->linear = std::find(kLinear.begin(), kLinear.end(), oniguruma) != kLinear.end();
  // Compiled code does not count the steps of simple repeats, so only patterns that need no count use it.
  if (code->linear) pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);
  Pattern pattern;
  pattern.code_ = std::move(code);
  return pattern;
}

void Pattern::find_all(std::string_view text, std::vector<Span>& out) const {
  if (code_ == nullptr) {
    for (std::size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size())) {
      out.push_back({at, at + literal_.size()});
    }
    return;
  }
  const Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  pcre2_set_heap_limit(context.get(), kHeapKibMax);
  const Owned<pcre2_match_data> data(
      pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  Owned<pcre2_jit_stack> stack;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0;
  std::size_t last_end = std::string_view::npos;
  while (at <= text.size()) {
    if (!code_->linear) pcre2_set_match_limit(context.get(), step_limit(text.size() - at));
    int count = pcre2_match(code_->code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK,
                            data.get(), context.get());
    if (count == PCRE2_ERROR_JIT_STACKLIMIT && stack == nullptr) {
      stack.reset(pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      continue;
    }
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) malformed("text needs too many steps of a pattern: " + pcre2_message(count));
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
    const Span span{found[0], found[1]};
    if (span.start < span.end || span.start != last_end) {
      out.push_back(span);
      last_end = span.end;
    }
    at = span.end;
    if (span.start == span.end) {
      at += at < text.size() ? code_point_at(text, at).size : 1;
    }
  }
}

Pattern read_pattern(const Json& json) {
  if (json.is_object() && json.size() == 1) {
    if (const Json* regex = member(json, "Regex"))
      return Pattern::regex(as_string(*regex, "Regex"));
    if (const Json* text = member(json, "String"))
      return Pattern::literal(as_string(*text, "String"));
  }
  malformed("tokenizer.json: a pattern is neither a Regex nor a String");
}

}  // namespace verbatim::local_engine
