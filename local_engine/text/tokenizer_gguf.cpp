#include "local_engine/text/tokenizer_gguf.hpp"

#include "local_engine/text/bpe.hpp"
#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/decoder.hpp"
#include "local_engine/text/fault.hpp"
#include "local_engine/text/gguf_pre_tokenizers.hpp"
#include "local_engine/text/gguf_vocabulary.hpp"
#include "local_engine/text/normalizer.hpp"
#include "local_engine/text/piece_cache.hpp"
#include "local_engine/text/pre_tokenizer.hpp"
#include "local_engine/text/safe_cuts.hpp"
#include "local_engine/text/special_tokens.hpp"
#include "local_engine/text/spm.hpp"
#include "local_engine/text/utf8.hpp"

#include <deque>

namespace verbatim::local_engine {

namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

/// What both kinds share: the vocabulary, special tokens in text, BOS and EOS.
class GgufTokenizer : public Tokenizer {
 public:
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text,
                                                    const EncodeOptions& options) const override
      try {
    std::vector<TokenId> ids;
    if (options.add_special && vocabulary_.add_bos && vocabulary_.bos)
      ids.push_back(*vocabulary_.bos);
    encode_fragments(special_->split(text, options.parse_special), text.size(), ids);
    if (options.add_special && vocabulary_.add_eos && vocabulary_.eos)
      ids.push_back(*vocabulary_.eos);
    return ids;
  } catch (const Fault& fault) {
    return Error{fault.code, fault.what, "", ""};
  }

  [[nodiscard]] std::string decode(const std::vector<TokenId>& ids,
                                   bool skip_special) const override {
    const auto stream = decode_stream(skip_special);
    std::string out;
    for (const TokenId id : ids) out += stream->push(id);
    out += stream->finish();
    return out;
  }

  [[nodiscard]] std::size_t vocab_size() const override { return vocabulary_.tokens.size(); }
  [[nodiscard]] std::optional<TokenId> bos() const override { return vocabulary_.bos; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return vocabulary_.eos; }
  [[nodiscard]] std::string token_text(TokenId id) const override {
    return std::string(vocabulary_.texts.text(id).value_or(""));
  }
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view text) const override {
    return vocabulary_.texts.find(text);
  }
  [[nodiscard]] bool is_special(TokenId id) const override {
    const auto i = static_cast<std::size_t>(id);
    if (id < 0 || i >= vocabulary_.tokens.size()) return false;
    const GgufTokenType type = vocabulary_.tokens[i].type;
    return type == GgufTokenType::control || type == GgufTokenType::unknown;
  }
  [[nodiscard]] Digest sha256() const override { return sha256_; }
  [[nodiscard]] const GgufVocabulary& vocabulary() const { return vocabulary_; }

 protected:
  GgufTokenizer(const GgufMetadata& metadata, bool add_bos)
      : sha256_(metadata.digest("tokenizer.ggml.")) {
    vocabulary_.add_bos = add_bos;
    read_gguf_vocabulary(metadata, vocabulary_);
    special_ = std::make_unique<SpecialTokens>(vocabulary_);
  }
  virtual void encode_fragments(const std::vector<Fragment>& fragments, std::size_t text_bytes,
                                std::vector<TokenId>& ids) const = 0;

  GgufVocabulary vocabulary_;

 private:
  std::unique_ptr<const SpecialTokens> special_;
  Digest sha256_;
};

/// Tokens' texts through a decoder chain.
class TextDecodeStream final : public DecodeStream {
 public:
  TextDecodeStream(const GgufTokenizer& tokenizer, const Decoder& decoder, bool skip_special)
      : tokenizer_(tokenizer), decoding_(decoder), skip_special_(skip_special) {}
  [[nodiscard]] std::string push(TokenId id) override {
    const auto text = tokenizer_.vocabulary().texts.text(id);
    if (!text || (skip_special_ && tokenizer_.is_special(id))) return {};
    // A vocabulary may hold any bytes, a decoder's stages take text.
    if (is_utf8(*text)) return decoding_.push(*text);
    LossyUtf8 lossy;
    std::string clean;
    lossy.push(*text, clean);
    lossy.finish(clean);
    return decoding_.push(clean);
  }
  [[nodiscard]] std::string finish() override { return decoding_.finish(); }

 private:
  const GgufTokenizer& tokenizer_;
  Decoding decoding_;
  bool skip_special_;
};

/// tokenizer.ggml.model = "llama".
class SpmTokenizer final : public GgufTokenizer {
 public:
  explicit SpmTokenizer(const GgufMetadata& metadata) : GgufTokenizer(metadata, /*add_bos=*/true) {
    const auto prefix = metadata.boolean("tokenizer.ggml.add_space_prefix", true);
    if (!prefix) throw Fault{prefix.error().code, prefix.error().what};
    add_space_prefix_ = *prefix;
    if (!metadata.has("tokenizer.ggml.scores"))
      malformed("GGUF metadata key 'tokenizer.ggml.scores' is missing");
    std::vector<float> scores;
    scores.reserve(vocabulary_.tokens.size());
    for (const GgufToken& token : vocabulary_.tokens) scores.push_back(token.score);
    spm_ = std::make_unique<Spm>(vocabulary_.texts, std::move(scores));
    cuts_ = SafeCuts(vocabulary_.texts);
    decoder_ = make_spm_decoder(add_space_prefix_);
  }

  [[nodiscard]] std::unique_ptr<DecodeStream> decode_stream(bool skip_special) const override {
    return std::make_unique<TextDecodeStream>(*this, decoder_, skip_special);
  }

 private:
  void encode_fragments(const std::vector<Fragment>& fragments, std::size_t text_bytes,
                        std::vector<TokenId>& ids) const override {
    PieceCache cache(text_bytes);
    std::deque<std::string> kept;  // the cache refers to them
    bool after_special = true;     // the start of the text counts as such
    for (const Fragment& fragment : fragments) {
      if (fragment.id >= 0) {
        ids.push_back(fragment.id);
        after_special = true;
        continue;
      }
      std::string& text = kept.emplace_back();
      text.reserve(fragment.text.size() + fragment.text.size() / 2);
      if (add_space_prefix_ && after_special) text += kSpaceMark;
      for (const char c : fragment.text) {
        if (c == ' ') {
          text += kSpaceMark;
        } else {
          text += c;
        }
      }
      after_special = false;
      encode_words(text, cache, ids);
    }
  }

  void encode_words(std::string_view text, PieceCache& cache, std::vector<TokenId>& ids) const {
    while (!text.empty()) {
      const std::size_t cut = cuts_.next(text, 0);
      cache.append(
          text.substr(0, cut), ids,
          [this](std::string_view piece, std::vector<TokenId>& out) { spm_->encode(piece, out); });
      text.remove_prefix(cut);
    }
  }

  bool add_space_prefix_ = true;
  std::unique_ptr<const Spm> spm_;
  SafeCuts cuts_;
  Decoder decoder_;
};

/// Normal tokens through the byte characters, all others as they are.
class ByteDecodeStream final : public DecodeStream {
 public:
  ByteDecodeStream(const GgufTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}
  [[nodiscard]] std::string push(TokenId id) override {
    std::string out;
    const auto text = tokenizer_.vocabulary().texts.text(id);
    if (!text || (skip_special_ && tokenizer_.is_special(id))) return out;
    const bool normal =
        tokenizer_.vocabulary().tokens[static_cast<std::size_t>(id)].type == GgufTokenType::normal;
    const auto bytes = normal && is_utf8(*text) ? from_byte_characters(*text) : std::nullopt;
    utf8_.push(bytes ? std::string_view(*bytes) : *text, out);
    return out;
  }
  [[nodiscard]] std::string finish() override {
    std::string out;
    utf8_.finish(out);
    return out;
  }

 private:
  const GgufTokenizer& tokenizer_;
  bool skip_special_;
  LossyUtf8 utf8_;
};

/// tokenizer.ggml.model = "gpt2".
class BpeTokenizer final : public GgufTokenizer {
 public:
  BpeTokenizer(const GgufMetadata& metadata, const GgufPreTokenizer& pre)
      : GgufTokenizer(metadata, pre.add_bos), nfc_(pre.nfc) {
    const auto prefix = metadata.boolean("tokenizer.ggml.add_space_prefix", false);
    if (!prefix) throw Fault{prefix.error().code, prefix.error().what};
    if (*prefix) refuse("tokenizer.ggml.add_space_prefix for a gpt2 vocabulary is not supported");
    for (const std::string_view pattern : pre.patterns) {
      stages_.push_back(
          make_split(Pattern::regex(pattern), SplitBehavior::isolated, /*invert=*/false));
    }
    BpeOptions options;
    options.byte_level = true;
    options.ignore_merges = pre.ignore_merges;
    bpe_ = std::make_unique<Bpe>(vocabulary_.texts, read_merges(metadata), options);
  }

  [[nodiscard]] std::unique_ptr<DecodeStream> decode_stream(bool skip_special) const override {
    return std::make_unique<ByteDecodeStream>(*this, skip_special);
  }

 private:
  static Bpe::Merges read_merges(const GgufMetadata& metadata) {
    const auto array = metadata.array("tokenizer.ggml.merges");
    if (!array) throw Fault{array.error().code, array.error().what};
    const auto* texts =
        *array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&(*array)->items);
    if (texts == nullptr)
      malformed("GGUF metadata key 'tokenizer.ggml.merges' is not a list of texts");
    Bpe::Merges merges;
    merges.reserve(texts->size());
    for (const std::string& text : *texts) {
      const std::size_t space = text.find(' ', 1);
      if (space == std::string::npos)
        malformed("merge '" + text + "' is not two texts and a space");
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
    return merges;
  }

  void encode_fragments(const std::vector<Fragment>& fragments, std::size_t text_bytes,
                        std::vector<TokenId>& ids) const override {
    PieceCache cache(text_bytes);
    Pieces pieces;                 // `owned` lives as long as the cache
    std::deque<std::string> kept;  // likewise
    for (const Fragment& fragment : fragments) {
      if (fragment.id >= 0) {
        ids.push_back(fragment.id);
        continue;
      }
      std::string_view text = fragment.text;
      const bool invalid = !is_utf8(text);
      if (invalid) text = kept.emplace_back(escape_invalid_bytes(text));
      if (nfc_) text = kept.emplace_back(normalize_unicode(std::string(text), UnicodeForm::nfc));
      pieces.list.assign(1, Piece{text, true});
      for (const auto& stage : stages_) stage->apply(pieces);
      for (const Piece& piece : pieces.list) {
        std::string_view bytes = piece.text;
        if (invalid) bytes = pieces.owned.emplace_back(restore_invalid_bytes(bytes));
        cache.append(bytes, ids, [this](std::string_view word, std::vector<TokenId>& out) {
          bpe_->encode(word, out);
        });
      }
    }
  }

  std::vector<std::unique_ptr<const PreTokenizer>> stages_;
  std::unique_ptr<const Bpe> bpe_;
  bool nfc_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer_gguf(const GgufMetadata& metadata,
                                                             std::string_view where) try {
  const auto model = metadata.text("tokenizer.ggml.model");
  if (!model) return model.error();
  if (*model == "llama") {
    return std::shared_ptr<const Tokenizer>(std::make_shared<SpmTokenizer>(metadata));
  }
  if (*model != "gpt2") refuse("tokenizer model " + *model + " is not supported");
  const auto name = metadata.text("tokenizer.ggml.pre", "");
  if (!name) return name.error();
  if (name->empty()) refuse("a gpt2 vocabulary without tokenizer.ggml.pre is not supported");
  const auto pre = find_gguf_pre_tokenizer(*name);
  if (!pre) refuse("pre-tokenizer " + *name + " is not supported");
  return std::shared_ptr<const Tokenizer>(std::make_shared<BpeTokenizer>(metadata, *pre));
} catch (const Fault& fault) {
  return Error{fault.code, fault.what, std::string(where), ""};
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer_gguf(const std::filesystem::path& path) {
  const auto metadata = read_gguf_metadata(path);
  if (!metadata) return metadata.error();
  return make_tokenizer_gguf(*metadata, path.string());
}

}  // namespace verbatim::local_engine
