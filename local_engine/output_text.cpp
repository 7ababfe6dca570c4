#include "local_engine/output_text.hpp"

#include "local_engine/engine.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace verbatim::local_engine {
namespace {

/// Length of the longest end of `text` that is a beginning of `stop`, but not all of it.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

OutputText::OutputText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop,
                       std::optional<TokenId> behind)
    : stop_(std::move(stop)) {
  if (tokenizer == nullptr) return;
  decoder_.emplace(std::move(tokenizer), /*skip_special=*/true);
  if (behind) (void)decoder_->push(*behind);
}

OutputText::Piece OutputText::push(TokenId id) {
  if (!decoder_ || stopped_) return {};
  return release(decoder_->push(id), false);
}

OutputText::Piece OutputText::finish() {
  if (!decoder_ || stopped_) return {};
  return release(decoder_->finish(), true);
}

OutputText::Piece OutputText::release(std::string more, bool last) {
  held_ += more;
  // The first occurrence ends the text; of two at the same place, the one named first.
  std::size_t at = std::string::npos;
  const std::string* found = nullptr;
  for (const auto& stop : stop_) {
    const auto here = held_.find(stop);
    if (here < at) {
      at = here;
      found = &stop;
    }
  }
  Piece piece;
  if (found != nullptr) {
    stopped_ = true;
    piece = {held_.substr(0, at), *found};
    held_.clear();
    return piece;
  }
  std::size_t keep = 0;
  if (!last) {
    for (const auto& stop : stop_) keep = std::max(keep, overlap(held_, stop));
  }
  piece.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return piece;
}

std::optional<TokenId> token_before(const GenerationRequest& request) {
  if (!request.continues_text || request.prompt_ids.empty()) return std::nullopt;
  return request.prompt_ids.back();
}

std::string answer_text(std::shared_ptr<const Tokenizer> tokenizer,
                        const GenerationRequest& request, const std::vector<TokenId>& ids) {
  OutputText output(std::move(tokenizer), {}, token_before(request));
  std::string text;
  for (const TokenId id : ids) text += output.push(id).text;
  return text + output.finish().text;
}

}  // namespace verbatim::local_engine
