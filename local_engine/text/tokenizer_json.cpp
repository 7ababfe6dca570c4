#include "local_engine/text/tokenizer_json.hpp"

#include "local_engine/text/added_tokens.hpp"
#include "local_engine/text/bpe.hpp"
#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/decoder.hpp"
#include "local_engine/text/json_fields.hpp"
#include "local_engine/text/normalizer.hpp"
#include "local_engine/text/piece_cache.hpp"
#include "local_engine/text/post_processor.hpp"
#include "local_engine/text/pre_tokenizer.hpp"
#include "local_engine/text/safe_cuts.hpp"
#include "local_engine/text/tokenizer_json_reader.hpp"
#include "local_engine/text/unigram.hpp"
#include "local_engine/text/utf8.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <deque>

namespace verbatim::local_engine {

namespace {

constexpr std::uint64_t kConfigBytesMax = std::uint64_t{16} * 1024 * 1024;

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(TokenizerDocument document, const SpecialNames& names, Digest sha256);

  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text,
                                                    const EncodeOptions& options) const override;
  [[nodiscard]] std::string decode(const std::vector<TokenId>& ids,
                                   bool skip_special) const override;
  [[nodiscard]] std::unique_ptr<DecodeStream> decode_stream(bool skip_special) const override;

  [[nodiscard]] std::optional<std::size_t> text_bytes_per_token_max() const override {
    return text_bytes_per_token_max_;
  }
  [[nodiscard]] std::size_t vocab_size() const override { return vocab_size_; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return eos_; }
  [[nodiscard]] std::string token_text(TokenId id) const override {
    return std::string(text(id).value_or(""));
  }
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view name) const override;
  [[nodiscard]] bool is_special(TokenId id) const override { return added_->is_special(id); }
  [[nodiscard]] Digest sha256() const override { return sha256_; }

  [[nodiscard]] std::optional<std::string_view> text(TokenId id) const {
    if (const AddedToken* token = added_->find(id)) return token->content;
    return vocabulary_.text(id);
  }
  [[nodiscard]] const Decoder& decoder() const { return decoder_; }

 private:
  void read_model(TokenizerDocument& document);
  void read_bpe(const Json& model, const TokenizerDocument& document);
  void read_unigram(const Json& model);
  void read_added_tokens(const Json& document);
  [[nodiscard]] std::optional<std::size_t> find_text_bytes_per_token_max(
      const Json& document) const;
  struct Encoding;
  void encode_text(std::string_view text, bool at_start, Encoding& encoding) const;
  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;

  Vocabulary vocabulary_;  // first: the models refer to it
  std::unique_ptr<const Normalizer> normalizer_;
  PreTokenization pre_;
  std::unique_ptr<const Bpe> bpe_;  // one of the two
  std::unique_ptr<const Unigram> unigram_;
  SafeCuts cuts_;
  std::unique_ptr<const AddedTokens> added_;
  PostProcessor post_;
  Decoder decoder_;
  std::size_t vocab_size_ = 0;
  std::optional<std::size_t> text_bytes_per_token_max_;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  Digest sha256_;
};

class JsonDecodeStream final : public DecodeStream {
 public:
  JsonDecodeStream(const JsonTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special), decoding_(tokenizer.decoder()) {}
  [[nodiscard]] std::string push(TokenId id) override {
    const auto text = tokenizer_.text(id);
    if (!text || (skip_special_ && tokenizer_.is_special(id))) return {};
    return decoding_.push(*text);
  }
  [[nodiscard]] std::string finish() override { return decoding_.finish(); }

 private:
  const JsonTokenizer& tokenizer_;
  bool skip_special_;
  Decoding decoding_;
};

/// What one call of encode() works with.
struct JsonTokenizer::Encoding {
  explicit Encoding(std::size_t text_bytes) : cache(text_bytes) {}
  PieceCache cache;
  Pieces pieces;                 // `owned` lives as long as the cache
  std::deque<std::string> kept;  // normalized texts
  bool invalid_bytes = false;    // some characters stand for invalid bytes
  std::vector<TokenId> ids;
};

JsonTokenizer::JsonTokenizer(TokenizerDocument document, const SpecialNames& names, Digest sha256)
    : sha256_(sha256) {
  const Json& json = document.rest;
  normalizer_ = read_normalizer(member(json, "normalizer"));
  pre_ = read_pre_tokenizer(member(json, "pre_tokenizer"));
  read_model(document);
  read_added_tokens(json);
  post_ = read_post_processor(member(json, "post_processor"));
  for (const TokenId id : post_.apply({})) {
    if (static_cast<std::size_t>(id) >= vocab_size_) {
      malformed("tokenizer.json: the post-processor's id " + std::to_string(id) + " is no token's");
    }
  }
  decoder_ = read_decoder(member(json, "decoder"));
  text_bytes_per_token_max_ = find_text_bytes_per_token_max(json);
  if (names.bos) bos_ = token_id(*names.bos);
  if (names.eos) eos_ = token_id(*names.eos);
}

void JsonTokenizer::read_model(TokenizerDocument& document) {
  const Json& model = required(document.rest, "model");
  const Json* named = member(model, "type");
  // Old files leave the type out; only BPE has merges.
  const std::string type = named != nullptr           ? as_string(*named, "type")
                           : !document.merges.empty() ? "BPE"
                                                      : "without a type";
  if (type == "BPE") {
    read_bpe(model, document);
  } else if (type == "Unigram") {
    read_unigram(model);
  } else {
    refuse("model " + type + " is not supported");
  }
}

void JsonTokenizer::read_bpe(const Json& model, const TokenizerDocument& document) {
  if (const Json* dropout = member(model, "dropout");
      dropout != nullptr && (!dropout->is_number() || dropout->get<double>() != 0.0)) {
    refuse("BPE dropout is not supported");
  }
  if (!document.has_vocab) malformed("tokenizer.json: model.vocab is missing");
  vocabulary_.reserve(document.vocab.size());
  for (const auto& [text, id] : document.vocab) {
    if (!vocabulary_.add(text, id)) malformed("tokenizer.json: token '" + text + "' occurs twice");
  }
  BpeOptions options;
  options.fuse_unk = boolean(model, "fuse_unk", false);
  options.byte_fallback = boolean(model, "byte_fallback", false);
  options.ignore_merges = boolean(model, "ignore_merges", false);
  if (const Json* unk = member(model, "unk_token")) {
    options.unk = vocabulary_.find(as_string(*unk, "unk_token"));
    if (!options.unk) malformed("tokenizer.json: unk_token is not in the vocabulary");
  }
  if (const Json* prefix = member(model, "continuing_subword_prefix")) {
    options.continuing_subword_prefix = as_string(*prefix, "continuing_subword_prefix");
  }
  if (const Json* suffix = member(model, "end_of_word_suffix")) {
    options.end_of_word_suffix = as_string(*suffix, "end_of_word_suffix");
  }
  if (!options.continuing_subword_prefix.empty() || !options.end_of_word_suffix.empty() ||
      options.byte_fallback) {
    write_byte_characters(pre_);
  }
  options.byte_level = pre_.byte_level;
  bpe_ = std::make_unique<Bpe>(vocabulary_, document.merges, options);
  if (bpe_->can_cut()) cuts_ = SafeCuts(vocabulary_);
}

void JsonTokenizer::read_unigram(const Json& model) {
  std::vector<double> scores;
  for (const Json& entry : array(model, "vocab")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[1].is_number()) {
      malformed("tokenizer.json: an entry of the Unigram vocabulary is not a text and a score");
    }
    if (scores.size() >= static_cast<std::size_t>(kTokenIdsMax)) {
      malformed("tokenizer.json: the vocabulary is too large");
    }
    const std::string text = as_string(entry[0], "vocab");
    if (!vocabulary_.add(text, static_cast<TokenId>(scores.size()))) {
      malformed("tokenizer.json: token '" + text + "' occurs twice");
    }
    scores.push_back(entry[1].get<double>());
  }
  std::optional<TokenId> unk;
  if (const Json* id = member(model, "unk_id")) {
    unk = as_id(*id, "unk_id");
    if (static_cast<std::size_t>(*unk) >= scores.size()) {
      malformed("tokenizer.json: unk_id is not in the vocabulary");
    }
  }
  write_byte_characters(pre_);
  unigram_ = std::make_unique<Unigram>(vocabulary_, std::move(scores), unk,
                                       boolean(model, "byte_fallback", false));
}

void JsonTokenizer::read_added_tokens(const Json& document) {
  std::vector<AddedToken> tokens;
  vocab_size_ = vocabulary_.size();
  for (const Json& json : array(document, "added_tokens")) {
    AddedToken token;
    token.id = as_id(required(json, "id"), "id");
    token.content = required_string(json, "content");
    token.single_word = boolean(json, "single_word", false);
    token.lstrip = boolean(json, "lstrip", false);
    token.rstrip = boolean(json, "rstrip", false);
    token.special = boolean(json, "special", false);
    token.normalized = boolean(json, "normalized", !token.special);
    if (token.id >= kTokenIdsMax)
      malformed("tokenizer.json: the id of an added token is too large");
    const auto known_id = vocabulary_.find(token.content);
    const auto known_text = vocabulary_.text(token.id);
    if ((known_id && *known_id != token.id) || (known_text && *known_text != token.content)) {
      malformed("tokenizer.json: added token '" + token.content + "' contradicts the vocabulary");
    }
    vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(token.id) + 1);
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  added_ = std::make_unique<AddedTokens>(std::move(tokens), normalizer_.get());
}

/// True if no stage of a pre-tokenizer drops text.
bool keeps_all_text(const Json& pre_tokenizer) {
  const std::string type = pre_tokenizer.value("type", "");
  if (type == "Sequence") {
    const Json& parts = array(pre_tokenizer, "pretokenizers");
    return std::all_of(parts.begin(), parts.end(), keeps_all_text);
  }
  if (type == "Split" || type == "Punctuation") {
    return pre_tokenizer.value("behavior", "Isolated") != "Removed";
  }
  return type == "ByteLevel" || type == "Digits";
}

/// Known for byte-level BPE, in which every byte of the text is in exactly one token's text.
std::optional<std::size_t> JsonTokenizer::find_text_bytes_per_token_max(
    const Json& document) const {
  const Json* pre = member(document, "pre_tokenizer");
  if (bpe_ == nullptr || !pre_.byte_level || pre == nullptr || !keeps_all_text(*pre)) {
    return std::nullopt;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    // What is not in the vocabulary may be dropped, or joined with its neighbours.
    if (!vocabulary_.find(to_byte_characters(std::string_view(&one, 1)))) return std::nullopt;
  }
  // Composition (NFC) makes text shorter: from 7 bytes to 2 at worst (U+1FBE U+0308 U+0301), so by less than 4 times.
  std::size_t shrinks_by = 1;
  if (const Json* normalizer = member(document, "normalizer"); normalizer != nullptr) {
    if (normalizer->value("type", "") != "NFC") return std::nullopt;
    shrinks_by = 4;
  }
  std::size_t longest = 1;
  for (const Json& added : array(document, "added_tokens")) {
    // With the white space around it a token may take any number of bytes.
    if (boolean(added, "lstrip", false) || boolean(added, "rstrip", false)) return std::nullopt;
    longest = std::max(longest, required_string(added, "content").size());
  }
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    longest = std::max(longest, vocabulary_.text(static_cast<TokenId>(id)).value_or("").size());
  }
  return longest * shrinks_by;
}

std::optional<TokenId> JsonTokenizer::token_id(std::string_view name) const {
  if (const auto id = added_->find(name)) return id;
  return vocabulary_.find(name);
}

Result<std::vector<TokenId>> JsonTokenizer::encode(std::string_view text,
                                                   const EncodeOptions& options) const try {
  Encoding encoding(text.size());
  std::string escaped;
  if (!is_utf8(text)) {
    escaped = escape_invalid_bytes(text);
    text = escaped;
    encoding.invalid_bytes = true;
  }
  std::vector<TokenOrText> parts;
  added_->split(text, /*at_start=*/true, /*normalized=*/false, options.parse_special, parts);
  std::vector<TokenOrText> inner;
  for (const TokenOrText& part : parts) {
    if (part.id >= 0) {
      encoding.ids.push_back(part.id);
      continue;
    }
    std::string_view normalized = part.text;
    if (normalizer_ != nullptr) {
      encoding.kept.push_back(normalizer_->apply(std::string(part.text)));
      normalized = encoding.kept.back();
    }
    inner.clear();
    added_->split(normalized, part.at_start, /*normalized=*/true, options.parse_special, inner);
    for (const TokenOrText& piece : inner) {
      if (piece.id >= 0) {
        encoding.ids.push_back(piece.id);
      } else {
        encode_text(piece.text, piece.at_start, encoding);
      }
    }
  }
  if (!options.add_special) return std::move(encoding.ids);
  return post_.apply(encoding.ids);
} catch (const Fault& fault) {
  return Error{fault.code, fault.what, "", ""};
}

void JsonTokenizer::encode_text(std::string_view text, bool at_start, Encoding& encoding) const {
  Pieces& pieces = encoding.pieces;
  pieces.list.assign(1, Piece{text, at_start});
  for (const auto& stage : pre_.stages) stage->apply(pieces);
  const auto encode = [this](std::string_view piece, std::vector<TokenId>& out) {
    encode_piece(piece, out);
  };
  for (const Piece& piece : pieces.list) {
    std::string_view rest = piece.text;
    if (encoding.invalid_bytes && pre_.byte_level) {
      pieces.owned.push_back(restore_invalid_bytes(rest));
      rest = pieces.owned.back();
    }
    while (!rest.empty()) {
      const std::size_t cut = cuts_.next(rest, 0);
      encoding.cache.append(rest.substr(0, cut), encoding.ids, encode);
      rest.remove_prefix(cut);
    }
  }
}

void JsonTokenizer::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
  if (bpe_ != nullptr) {
    bpe_->encode(piece, out);
  } else {
    unigram_->encode(piece, out);
  }
}

std::unique_ptr<DecodeStream> JsonTokenizer::decode_stream(bool skip_special) const {
  return std::make_unique<JsonDecodeStream>(*this, skip_special);
}

std::string JsonTokenizer::decode(const std::vector<TokenId>& ids, bool skip_special) const {
  JsonDecodeStream stream(*this, skip_special);
  std::string out;
  for (const TokenId id : ids) out += stream.push(id);
  out += stream.finish();
  return out;
}

/// A name is a string, or an object with the string in "content".
std::optional<std::string> read_name(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  const Json* value = &*found;
  if (value->is_object()) {
    const auto content = value->find("content");
    if (content == value->end()) return std::nullopt;
    value = &*content;
  }
  if (!value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

}  // namespace

Result<SpecialNames> read_special_names(const std::filesystem::path& folder) {
  SpecialNames names;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto path = folder / name;
    const auto text = read_file(path, kConfigBytesMax);
    if (!text) {
      if (text.error().code == Errc::not_found) continue;
      return text.error();
    }
    const auto json = parse_json(*text);
    if (!json || !json->is_object()) {
      return Error{Errc::invalid_input, std::string(name) + " is not a JSON object", path.string(),
                   ""};
    }
    if (!names.bos) names.bos = read_name(*json, "bos_token");
    if (!names.eos) names.eos = read_name(*json, "eos_token");
  }
  return names;
}

Result<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(std::string_view json,
                                                              const SpecialNames& names,
                                                              std::string_view where) try {
  return std::shared_ptr<const Tokenizer>(std::make_shared<JsonTokenizer>(
      read_tokenizer_document(json), names, verbatim::sha256(json)));
} catch (const Fault& fault) {
  return Error{fault.code, fault.what, std::string(where), ""};
}

}  // namespace verbatim::local_engine
