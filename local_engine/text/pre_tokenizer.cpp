#include "local_engine/text/pre_tokenizer.hpp"

#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/json_fields.hpp"
#include "local_engine/text/known_patterns.hpp"
#include "local_engine/text/utf8.hpp"

#include <functional>

namespace verbatim::local_engine {

namespace {

constexpr int kNestingMax = 16;

/// A stretch of a piece, and whether the pattern matched it.
struct Stretch {
  Span span;
  bool match = false;
};

/// Joins and drops stretches as the behavior says. `stretches` covers the piece without gaps.
void apply_behavior(std::vector<Stretch>& stretches, SplitBehavior behavior) {
  std::vector<Stretch> out;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::isolated:
      return;
    case SplitBehavior::removed:
      for (const Stretch& stretch : stretches) {
        if (!stretch.match) out.push_back(stretch);
      }
      break;
    case SplitBehavior::contiguous:
      for (const Stretch& stretch : stretches) {
        if (stretch.match == previous && !out.empty()) {
          out.back().span.end = stretch.span.end;
        } else {
          out.push_back(stretch);
        }
        previous = stretch.match;
      }
      break;
    case SplitBehavior::merged_with_previous:
      for (const Stretch& stretch : stretches) {
        if (stretch.match && !previous && !out.empty()) {
          out.back().span.end = stretch.span.end;
        } else {
          out.push_back(stretch);
        }
        previous = stretch.match;
      }
      break;
    case SplitBehavior::merged_with_next:
      for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
        if (stretch->match && !previous && !out.empty()) {
          out.back().span.start = stretch->span.start;
        } else {
          out.push_back(*stretch);
        }
        previous = stretch->match;
      }
      out = {out.rbegin(), out.rend()};
      break;
  }
  stretches = std::move(out);
}

/// Cuts pieces where a matcher finds something. The matcher appends its matches in order.
class Split : public PreTokenizer {
 public:
  using Matcher = std::function<void(std::string_view, std::vector<Span>&)>;
  Split(Matcher matcher, SplitBehavior behavior, bool invert)
      : matcher_(std::move(matcher)), behavior_(behavior), invert_(invert) {}

  void apply(Pieces& pieces) const override {
    std::vector<Piece> out;
    out.reserve(pieces.list.size());
    std::vector<Span> found;
    std::vector<Stretch> stretches;
    for (const Piece& piece : pieces.list) {
      found.clear();
      matcher_(piece.text, found);
      stretches.clear();
      std::size_t at = 0;
      for (const Span& span : found) {
        if (at != span.start) stretches.push_back({{at, span.start}, invert_});
        stretches.push_back({span, !invert_});
        at = span.end;
      }
      if (at != piece.text.size()) stretches.push_back({{at, piece.text.size()}, invert_});
      apply_behavior(stretches, behavior_);
      for (const Stretch& stretch : stretches) {
        const Span& span = stretch.span;
        if (span.start == span.end) continue;
        out.push_back({piece.text.substr(span.start, span.end - span.start),
                       piece.at_start && span.start == 0});
      }
    }
    pieces.list = std::move(out);
  }

 private:
  Matcher matcher_;
  SplitBehavior behavior_;
  bool invert_;
};

using Predicate = bool (*)(char32_t);

/// Every character that the predicate holds for is a match of its own.
Split::Matcher each_character(Predicate predicate) {
  return [predicate](std::string_view text, std::vector<Span>& out) {
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      if (predicate(point.value)) out.push_back({at, at + point.size});
      at += point.size;
    }
  };
}

/// Replaces the text of every piece.
class Rewrite : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    for (Piece& piece : pieces.list) {
      pieces.owned.push_back(rewrite(piece));
      piece.text = pieces.owned.back();
    }
  }

 private:
  [[nodiscard]] virtual std::string rewrite(const Piece& piece) const = 0;
};

class ByteCharacters final : public Rewrite {
 private:
  [[nodiscard]] std::string rewrite(const Piece& piece) const override {
    return to_byte_characters(piece.text);
  }
};

class PrefixSpace final : public Rewrite {
 private:
  [[nodiscard]] std::string rewrite(const Piece& piece) const override {
    std::string text(piece.text);
    if (!text.starts_with(' ')) text.insert(0, 1, ' ');
    return text;
  }
};

enum class PrependScheme { first, always, never };

/// Spaces become the replacement character, and one is put in front as the scheme says.
class Metaspace final : public Rewrite {
 public:
  Metaspace(std::string replacement, PrependScheme scheme)
      : replacement_(std::move(replacement)), scheme_(scheme) {}

 private:
  [[nodiscard]] std::string rewrite(const Piece& piece) const override {
    std::string text;
    text.reserve(piece.text.size() + 16);
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement_;
      } else {
        text += c;
      }
    }
    const bool prepend =
        scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && piece.at_start);
    if (prepend && !text.starts_with(replacement_)) text.insert(0, replacement_);
    return text;
  }

  std::string replacement_;
  PrependScheme scheme_;
};

using Stages = std::vector<std::unique_ptr<const PreTokenizer>>;

SplitBehavior read_behavior(const Json& json, SplitBehavior fallback) {
  const Json* value = member(json, "behavior");
  if (value == nullptr) return fallback;
  const std::string name = as_string(*value, "behavior");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  refuse("split behavior " + name + " is not supported");
}

void read_byte_level(const Json& json, PreTokenization& out) {
  if (boolean(json, "add_prefix_space", true))
    out.stages.push_back(std::make_unique<PrefixSpace>());
  if (boolean(json, "use_regex", true)) {
    out.stages.push_back(make_split(Pattern::regex(known_patterns::kGpt2), SplitBehavior::isolated,
                                    /*invert=*/false));
  }
  out.byte_level = true;
}

PrependScheme read_prepend_scheme(const Json& json) {
  const Json* scheme = member(json, "prepend_scheme");
  if (scheme == nullptr) {
    // Files from before there were schemes have only this.
    return boolean(json, "add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
  }
  const std::string name = as_string(*scheme, "prepend_scheme");
  if (name == "first") return PrependScheme::first;
  if (name == "always") return PrependScheme::always;
  if (name == "never") return PrependScheme::never;
  refuse("prepend_scheme " + name + " is not supported");
}

void read_metaspace(const Json& json, Stages& stages) {
  const std::string replacement = required_string(json, "replacement");
  if (replacement.empty() || code_point_at(replacement, 0).size != replacement.size()) {
    malformed("tokenizer.json: the replacement of Metaspace is not one character");
  }
  stages.push_back(std::make_unique<Metaspace>(replacement, read_prepend_scheme(json)));
  if (boolean(json, "split", true)) {
    stages.push_back(make_split(Pattern::literal(replacement), SplitBehavior::merged_with_next,
                                /*invert=*/false));
  }
}

std::unique_ptr<const PreTokenizer> split_at(Predicate predicate, SplitBehavior behavior) {
  return std::make_unique<Split>(each_character(predicate), behavior, /*invert=*/false);
}

std::unique_ptr<const PreTokenizer> split_at_delimiter(const Json& json) {
  const std::string delimiter = required_string(json, "delimiter");
  return make_split(Pattern::literal(delimiter), SplitBehavior::removed, /*invert=*/false);
}

void read(const Json& json, int depth, PreTokenization& out) {
  if (depth > kNestingMax) malformed("tokenizer.json: pre-tokenizers are nested too deeply");
  const std::string type = required_string(json, "type");
  if (type != "Sequence") write_byte_characters(out);  // what follows them must see them
  Stages& stages = out.stages;
  if (type == "Sequence") {
    for (const Json& part : array(json, "pretokenizers")) read(part, depth + 1, out);
  } else if (type == "ByteLevel") {
    read_byte_level(json, out);
  } else if (type == "Split") {
    stages.push_back(make_split(read_pattern(required(json, "pattern")),
                                read_behavior(json, SplitBehavior::isolated),
                                boolean(json, "invert", false)));
  } else if (type == "Digits") {
    stages.push_back(split_at(is_numeric, boolean(json, "individual_digits", false)
                                              ? SplitBehavior::isolated
                                              : SplitBehavior::contiguous));
  } else if (type == "Punctuation") {
    stages.push_back(split_at(is_punctuation, read_behavior(json, SplitBehavior::isolated)));
  } else if (type == "Metaspace") {
    read_metaspace(json, stages);
  } else if (type == "Whitespace") {
    stages.push_back(make_split(Pattern::regex(R"(\w+|[^\w\s]+)"), SplitBehavior::removed,
                                /*invert=*/true));
  } else if (type == "WhitespaceSplit") {
    stages.push_back(split_at(is_white_space, SplitBehavior::removed));
  } else if (type == "BertPreTokenizer") {
    stages.push_back(split_at(is_white_space, SplitBehavior::removed));
    stages.push_back(split_at(is_punctuation, SplitBehavior::isolated));
  } else if (type == "CharDelimiterSplit") {
    stages.push_back(split_at_delimiter(json));
  } else {
    refuse("pre-tokenizer " + type + " is not supported");
  }
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_split(Pattern pattern, SplitBehavior behavior,
                                               bool invert) {
  return std::make_unique<Split>(
      [pattern = std::move(pattern)](std::string_view text, std::vector<Span>& out) {
        pattern.find_all(text, out);
      },
      behavior, invert);
}

void write_byte_characters(PreTokenization& pre) {
  if (!pre.byte_level) return;
  pre.stages.push_back(std::make_unique<ByteCharacters>());
  pre.byte_level = false;
}

PreTokenization read_pre_tokenizer(const Json* json) {
  PreTokenization out;
  if (json != nullptr) read(*json, 0, out);
  return out;
}

}  // namespace verbatim::local_engine
