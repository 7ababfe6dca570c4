#include "local_engine/text/decoder.hpp"

#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/json_fields.hpp"
#include "local_engine/text/pattern.hpp"
#include "local_engine/text/utf8.hpp"
#include "schema/bytes.hpp"

#include <limits>
#include <optional>

namespace verbatim::local_engine {

namespace {

constexpr int kNestingMax = 16;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// A stage that works on whole tokens.
class TokenStage : public DecodeStage {
 public:
  explicit TokenStage(DecodeStage& next) : next_(next) {}
  void text(std::string_view chunk) override { token_ += chunk; }
  void end_token() override {
    token(token_);
    token_.clear();
  }
  void finish() override {
    flush();
    next_.finish();
  }

 protected:
  virtual void token(std::string_view text) = 0;
  virtual void flush() {}
  void give(std::string_view text) {
    next_.text(text);
    next_.end_token();
  }
  DecodeStage& next_;

 private:
  std::string token_;
};

/// Characters back to the bytes they stand for, bytes to text. A token with any other character is taken as it is.
class ByteLevel final : public TokenStage {
 public:
  using TokenStage::TokenStage;

 private:
  void token(std::string_view text) override {
    const auto bytes = from_byte_characters(text);
    std::string out;
    utf8_.push(bytes ? std::string_view(*bytes) : text, out);
    next_.text(out);
  }
  void flush() override {
    std::string out;
    utf8_.finish(out);
    give(out);
  }
  LossyUtf8 utf8_;
};

/// Runs of <0xXX> tokens become their bytes' text; a run that is not UTF-8 becomes one U+FFFD a byte. So nothing
/// of a run is certain before the run ends.
class ByteFallback final : public TokenStage {
 public:
  using TokenStage::TokenStage;

 private:
  static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
  void token(std::string_view text) override {
    if (text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') && hex(text[3]) >= 0 &&
        hex(text[4]) >= 0) {
      run_.push_back(static_cast<char>(hex(text[3]) * 16 + hex(text[4])));
      return;
    }
    flush();
    give(text);
  }
  void flush() override {
    if (run_.empty()) return;
    if (is_utf8(run_)) {
      give(run_);
    } else {
      for (std::size_t i = 0; i < run_.size(); ++i) give(kReplacement);
    }
    run_.clear();
  }
  std::string run_;
};

/// All tokens become one.
class Fuse final : public DecodeStage {
 public:
  explicit Fuse(DecodeStage& next) : next_(next) {}
  void text(std::string_view chunk) override { next_.text(chunk); }
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }

 private:
  DecodeStage& next_;
};

/// Drops up to `start` characters at the start and `stop` at the end of each token.
class Strip final : public DecodeStage {
 public:
  Strip(DecodeStage& next, std::string content, std::size_t start, std::size_t stop)
      : next_(next), content_(std::move(content)), start_(start), stop_(stop), left_(start) {}
  void text(std::string_view chunk) override {
    while (left_ > 0 && !chunk.empty()) {
      if (chunk.starts_with(content_)) {
        chunk.remove_prefix(content_.size());
        --left_;
      } else {
        left_ = 0;
      }
    }
    if (stop_ == 0) {
      next_.text(chunk);
      return;
    }
    held_ += chunk;
    std::size_t keep = held_.size();
    for (std::size_t i = 0; i < stop_ && keep > 0; ++i) keep -= code_point_before(held_, keep).size;
    next_.text(std::string_view(held_).substr(0, keep));
    held_.erase(0, keep);
  }
  void end_token() override {
    std::string_view rest = held_;
    for (std::size_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
      rest.remove_suffix(content_.size());
    }
    next_.text(rest);
    held_.clear();
    left_ = start_;
    next_.end_token();
  }
  void finish() override { next_.finish(); }

 private:
  DecodeStage& next_;
  std::string content_;  // one character
  std::size_t start_;
  std::size_t stop_;
  std::size_t left_;  // how many may still be dropped at the start of this token
  std::string held_;  // the last `stop_` characters: they may be dropped
};

class Replace final : public TokenStage {
 public:
  Replace(DecodeStage& next, Pattern pattern, std::string content)
      : TokenStage(next), pattern_(std::move(pattern)), content_(std::move(content)) {}

 private:
  void token(std::string_view text) override {
    spans_.clear();
    pattern_.find_all(text, spans_);
    std::size_t at = 0;
    for (const Span& span : spans_) {
      next_.text(text.substr(at, span.start - at));
      next_.text(content_);
      at = span.end;
    }
    give(text.substr(at));
  }
  Pattern pattern_;
  std::string content_;
  std::vector<Span> spans_;
};

/// The replacement character becomes a space, in the first token nothing (unless the scheme is "never").
class Metaspace final : public TokenStage {
 public:
  Metaspace(DecodeStage& next, std::string replacement, bool prepends)
      : TokenStage(next), replacement_(std::move(replacement)), drop_(prepends) {}

 private:
  void token(std::string_view text) override {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      if (text.substr(at).starts_with(replacement_)) {
        if (!drop_) out += ' ';
        at += replacement_.size();
      } else {
        out += text[at++];
      }
    }
    drop_ = false;
    give(out);
  }
  std::string replacement_;
  bool drop_;
};

/// The end-of-word suffix becomes a space, at the end of the text nothing.
class WordSuffix final : public TokenStage {
 public:
  WordSuffix(DecodeStage& next, std::string suffix)
      : TokenStage(next), suffix_(std::move(suffix)) {}

 private:
  void token(std::string_view text) override {
    if (held_) put(" ");
    held_ = std::string(text);
  }
  void flush() override {
    if (held_) put("");
    held_.reset();
  }
  void put(std::string_view replacement) {
    std::string out = *held_;
    for (std::size_t at = out.find(suffix_); at != std::string::npos;
         at = out.find(suffix_, at + replacement.size())) {
      out.replace(at, suffix_.size(), replacement);
    }
    give(out);
  }
  std::string suffix_;
  std::optional<std::string> held_;
};

class JoinBySpaces final : public TokenStage {
 public:
  using TokenStage::TokenStage;

 private:
  void token(std::string_view text) override {
    if (!first_) next_.text(" ");
    first_ = false;
    give(text);
  }
  bool first_ = true;
};

template <class Stage, class... Arguments>
DecodeStageFactory factory(Arguments... arguments) {
  return [arguments...](DecodeStage& next) -> std::unique_ptr<DecodeStage> {
    return std::make_unique<Stage>(next, arguments...);
  };
}

std::size_t count(const Json& json, const char* name) {
  const Json& value = required(json, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1'000'000) {
    malformed("tokenizer.json: '" + std::string(name) + "' is not a count");
  }
  return value.get<std::size_t>();
}

std::string one_character(const Json& json, const char* name) {
  std::string text = required_string(json, name);
  if (text.empty() || code_point_at(text, 0).size != text.size()) {
    malformed("tokenizer.json: '" + std::string(name) + "' is not one character");
  }
  return text;
}

DecodeStageFactory read_metaspace(const Json& json) {
  const Json* scheme = member(json, "prepend_scheme");
  const bool prepends = scheme != nullptr ? as_string(*scheme, "prepend_scheme") != "never"
                                          : boolean(json, "add_prefix_space", true);
  return factory<Metaspace>(one_character(json, "replacement"), prepends);
}

void read(const Json& json, int depth, Decoder& out) {
  if (depth > kNestingMax) malformed("tokenizer.json: decoders are nested too deeply");
  const std::string type = required_string(json, "type");
  if (type == "Sequence") {
    for (const Json& part : array(json, "decoders")) read(part, depth + 1, out);
  } else if (type == "ByteLevel") {
    out.push_back(factory<ByteLevel>());
  } else if (type == "ByteFallback") {
    out.push_back(factory<ByteFallback>());
  } else if (type == "Fuse") {
    out.push_back(factory<Fuse>());
  } else if (type == "Strip") {
    out.push_back(
        factory<Strip>(one_character(json, "content"), count(json, "start"), count(json, "stop")));
  } else if (type == "Replace") {
    out.push_back(factory<Replace>(read_pattern(required(json, "pattern")),
                                   required_string(json, "content")));
  } else if (type == "Metaspace") {
    out.push_back(read_metaspace(json));
  } else if (type == "BPEDecoder") {
    const std::string suffix = required_string(json, "suffix");
    if (suffix.empty()) malformed("tokenizer.json: the suffix of BPEDecoder is empty");
    out.push_back(factory<WordSuffix>(suffix));
  } else {
    refuse("decoder " + type + " is not supported");
  }
}

}  // namespace

Decoder read_decoder(const Json* json) {
  Decoder out;
  if (json == nullptr) {
    out.push_back(factory<JoinBySpaces>());
  } else {
    read(*json, 0, out);
  }
  return out;
}

Decoder make_spm_decoder(bool strip_space) {
  Decoder out;
  out.push_back(factory<Replace>(Pattern::literal("\xe2\x96\x81"), std::string(" ")));
  out.push_back(factory<ByteFallback>());
  out.push_back(factory<Fuse>());
  if (strip_space) out.push_back(factory<Strip>(std::string(" "), std::size_t{1}, std::size_t{0}));
  return out;
}

Decoding::Decoding(const Decoder& decoder) : end_(std::make_unique<End>()) {
  DecodeStage* next = end_.get();
  for (auto make = decoder.rbegin(); make != decoder.rend(); ++make) {
    stages_.push_back((*make)(*next));
    next = stages_.back().get();
  }
}

std::string Decoding::push(std::string_view token) {
  DecodeStage& first = stages_.empty() ? static_cast<DecodeStage&>(*end_) : *stages_.back();
  first.text(token);
  first.end_token();
  return std::exchange(end_->out, {});
}

std::string Decoding::finish() {
  if (!stages_.empty()) stages_.back()->finish();
  return std::exchange(end_->out, {});
}

}  // namespace verbatim::local_engine
