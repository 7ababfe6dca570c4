#pragma once
// What every tokenizer promises of every text.

#include "local_engine/tokenizer.hpp"
#include "tests/fuzz/target.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::fuzz {

inline void check_tokenizer(const local_engine::Tokenizer& tokenizer, std::string_view text) {
  using local_engine::TokenId;
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.encode(text, {special, special});
    if (!ids) {
      VERBATIM_CHECK(!ids.error().what.empty());
      continue;
    }
    for (const TokenId id : *ids) {
      VERBATIM_CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size());
    }
    if (const auto bytes = tokenizer.text_bytes_per_token_max()) {
      VERBATIM_CHECK(text.size() <= ids->size() * *bytes);
    }
    for (const bool skip : {false, true}) {
      const std::string whole = tokenizer.decode(*ids, skip);
      VERBATIM_CHECK(is_utf8(whole));
      const auto stream = tokenizer.decode_stream(skip);
      std::string joined;
      for (const TokenId id : *ids) {
        const std::string piece = stream->push(id);
        VERBATIM_CHECK(is_utf8(piece));
        joined += piece;
      }
      joined += stream->finish();
      VERBATIM_CHECK(joined == whole);
    }
  }
  // Ids that no tokenizer has are passed over.
  (void)tokenizer.decode({-1, 0, 1, 2, 1 << 30}, false);
  for (const auto& id : {tokenizer.bos(), tokenizer.eos()}) {
    if (id) (void)tokenizer.token_text(*id);
  }
  (void)tokenizer.token_id(text);
}

}  // namespace verbatim::fuzz
