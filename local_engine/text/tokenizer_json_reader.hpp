#pragma once
// tokenizer.json as data: the large tables in compact form, the rest as JSON.

#include "local_engine/text/bpe.hpp"
#include "local_engine/token.hpp"
#include "schema/canonical_json.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

/// Ids are below this: a table by id must stay small whatever a file says.
inline constexpr std::int64_t kTokenIdsMax = 1 << 24;

struct TokenizerDocument {
  Json rest;  ///< everything but what follows
  bool has_vocab = false;
  std::vector<std::pair<std::string, TokenId>> vocab;  ///< model.vocab, when it is an object
  Bpe::Merges merges;                                  ///< model.merges, strings and pairs alike
};

/// A document of half a million merges as a tree of JSON values would take hundreds of megabytes, so vocab and
/// merges go into vectors while they are read. Throws Fault (`invalid_input`): not JSON, a duplicate key, nesting
/// beyond 64, an id out of range, a malformed merge.
[[nodiscard]] TokenizerDocument read_tokenizer_document(std::string_view json);

}  // namespace verbatim::local_engine
