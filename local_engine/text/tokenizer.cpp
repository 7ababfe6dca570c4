#include "local_engine/tokenizer.hpp"

#include "local_engine/text/tokenizer_gguf.hpp"
#include "local_engine/text/tokenizer_json.hpp"
#include "schema/file.hpp"

namespace verbatim::local_engine {

namespace {

constexpr std::uint64_t kTokenizerBytesMax = std::uint64_t{256} * 1024 * 1024;

/// For tokenizers that cannot say early what is certain.
class DecodeAtTheEnd final : public DecodeStream {
 public:
  DecodeAtTheEnd(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}
  [[nodiscard]] std::string push(TokenId id) override {
    ids_.push_back(id);
    return {};
  }
  [[nodiscard]] std::string finish() override { return tokenizer_.decode(ids_, skip_special_); }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<TokenId> ids_;
};

}  // namespace

std::unique_ptr<DecodeStream> Tokenizer::decode_stream(bool skip_special) const {
  return std::make_unique<DecodeAtTheEnd>(*this, skip_special);
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return load_tokenizer_gguf(path);
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  const auto json = read_file(file, kTokenizerBytesMax);
  if (!json) return json.error();
  const auto names = read_special_names(file.parent_path());
  if (!names) return names.error();
  return parse_tokenizer_json(*json, *names, file.string());
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), stream_(tokenizer_->decode_stream(skip_special)) {}

std::string StreamDecoder::push(TokenId id) { return stream_->push(id); }

std::string StreamDecoder::finish() { return stream_->finish(); }

}  // namespace verbatim::local_engine
