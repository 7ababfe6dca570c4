#include "local_engine/text/tokenizer_json_reader.hpp"

#include "local_engine/text/fault.hpp"

namespace verbatim::local_engine {

namespace {

constexpr std::size_t kDepthMax = 64;

/// Receives nlohmann's events. Everything is added to a tree, except below model.vocab and model.merges.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerDocument& out) : out_(out) {}

  bool null() override { return value(Json()); }
  bool boolean(bool v) override { return value(Json(v)); }
  bool number_integer(number_integer_t v) override { return value(Json(v)); }
  bool number_unsigned(number_unsigned_t v) override {
    if (mode_ == Mode::vocab) return entry(v);
    return value(Json(v));
  }
  bool number_float(number_float_t v, const string_t& /*token*/) override { return value(Json(v)); }
  bool string(string_t& v) override {
    if (mode_ == Mode::merges) return merge_text(v);
    return value(Json(std::move(v)));
  }
  bool binary(binary_t& /*v*/) override { return false; }

  bool start_object(std::size_t /*size*/) override {
    if (mode_ == Mode::none && is_at("vocab")) {
      mode_ = Mode::vocab;
      out_.has_vocab = true;
      return true;
    }
    return open(Json::object());
  }
  bool key(string_t& v) override {
    if (mode_ == Mode::vocab) {
      key_ = std::move(v);
      return true;
    }
    if (stack_.back()->contains(v)) malformed("tokenizer.json: '" + v + "' occurs twice");
    keys_.back() = std::move(v);
    return true;
  }
  bool end_object() override {
    if (mode_ == Mode::vocab) {
      mode_ = Mode::none;
      return true;
    }
    return close();
  }

  bool start_array(std::size_t /*size*/) override {
    if (mode_ == Mode::none && is_at("merges")) {
      mode_ = Mode::merges;
      return true;
    }
    if (mode_ == Mode::merges && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (mode_ == Mode::merges && in_pair_) {
      in_pair_ = false;
      if (pair_.size() != 2) malformed("tokenizer.json: a merge is not a pair");
      out_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      return true;
    }
    if (mode_ == Mode::merges) {
      mode_ = Mode::none;
      return true;
    }
    return close();
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    malformed("tokenizer.json is not JSON at byte " + std::to_string(position));
  }

 private:
  enum class Mode { none, vocab, merges };

  /// Is the value that begins now model.NAME?
  [[nodiscard]] bool is_at(std::string_view name) const {
    return stack_.size() == 2 && keys_[0] == "model" && keys_[1] == name && stack_[1]->is_object();
  }

  bool value(Json json) {
    if (mode_ == Mode::vocab)
      malformed("tokenizer.json: the id of '" + key_ + "' is not a token id");
    if (mode_ == Mode::merges) malformed("tokenizer.json: a merge is neither a text nor a pair");
    add(std::move(json));
    return true;
  }

  Json* add(Json json) {
    if (stack_.empty()) {
      out_.rest = std::move(json);
      return &out_.rest;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(json));
      return &parent.back();
    }
    Json& made = parent[keys_.back()];
    made = std::move(json);
    return &made;
  }

  bool open(Json json) {
    if (mode_ != Mode::none)
      malformed("tokenizer.json: a value of vocab or merges is not a scalar");
    if (stack_.size() >= kDepthMax) malformed("tokenizer.json is nested too deeply");
    // Pointers to parents stay valid: only the innermost container grows.
    Json* made = add(std::move(json));
    stack_.push_back(made);
    keys_.emplace_back();
    return true;
  }

  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  bool entry(std::uint64_t id) {
    if (id >= static_cast<std::uint64_t>(kTokenIdsMax)) {
      malformed("tokenizer.json: the id of '" + key_ + "' is too large");
    }
    out_.vocab.emplace_back(std::move(key_), static_cast<TokenId>(id));
    return true;
  }

  bool merge_text(std::string& text) {
    if (in_pair_) {
      pair_.push_back(std::move(text));
      return pair_.size() <= 2;
    }
    if (text.starts_with("#version")) return true;
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      malformed("tokenizer.json: merge '" + text + "' is not two texts and a space");
    }
    out_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }

  TokenizerDocument& out_;
  std::vector<Json*> stack_;       // the open containers
  std::vector<std::string> keys_;  // the last key of each
  Mode mode_ = Mode::none;
  std::string key_;  // of the vocabulary entry at hand
  bool in_pair_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerDocument read_tokenizer_document(std::string_view json) {
  TokenizerDocument out;
  Reader reader(out);
  if (!Json::sax_parse(json, &reader)) malformed("tokenizer.json is malformed");
  if (!out.rest.is_object()) malformed("tokenizer.json is not an object");
  return out;
}

}  // namespace verbatim::local_engine
