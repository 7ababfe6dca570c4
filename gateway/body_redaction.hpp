#pragma once
// A body without what the rules take out of it. Everything else keeps its bytes.

#include "gateway/dialect.hpp"
#include "gateway/redaction_rules.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

/// How often each rule took something out. Beside the rules' names: `unreadable` (pieces whose meaning could not be
/// told) and `derived` (log-probabilities, token ids and the like of a text of which something was taken out).
using RedactionCounts = std::map<std::string, std::uint64_t>;

/// What a rule's pointers took out of a request: an answer must not repeat it.
struct TakenText {
  std::string text;
  std::string rule;
};

/// Finds what must not be stored in a text: secrets by their form, and texts that were taken out before.
class TextSearch {
 public:
  struct Hit {
    std::size_t begin = 0, end = 0;
    const std::string* rule = nullptr;
  };
  /// Both must outlive it.
  TextSearch(const RedactionRules& rules, const std::vector<TakenText>& taken);

  /// In order of place, none touching another: of hits that overlap one remains, which spans them all.
  [[nodiscard]] std::vector<Hit> find(std::string_view text) const;
  /// The text with the hits taken out, counted.
  [[nodiscard]] std::string redact(std::string_view text, RedactionCounts& counts) const;

 private:
  std::map<SecretKind, const std::string*> rule_of_;  // the first that names the pattern
  SecretKinds kinds_;
  const std::vector<TakenText>& taken_;
};

/// Bytes [begin, end) of the body are replaced by `text`.
struct BodyEdit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

struct BodyRedaction {
  std::vector<BodyEdit> edits;  ///< in order, apart from each other
  RedactionCounts counts;
  std::vector<TakenText>
      taken;  ///< different strings that pointers took out, of 6 bytes and more, at most 64
  bool taken_more = false;  ///< there were more of them: an answer cannot be searched for all
  bool opaque = false;      ///< the whole body is unreadable: none of it may be kept

  [[nodiscard]] std::string apply(std::string_view body) const;
};

/// Where places of a body are after apply(). Asked in rising order, all of them take one walk over the edits.
class MovedPlaces {
 public:
  /// Must outlive it.
  explicit MovedPlaces(const std::vector<BodyEdit>& edits) : edits_(&edits) {}
  [[nodiscard]] std::size_t operator()(std::size_t place);

 private:
  const std::vector<BodyEdit>* edits_;
  std::size_t next_ = 0;               // edits before it end at or before the last place
  std::size_t removed_ = 0, put_ = 0;  // bytes, by those
};

struct BodyQuestion {
  std::string_view content_type;
  std::string_view body;
  Api api = Api::generic;
  bool answer = false;          ///< its pointers are the rules' answer_pointers
  bool derived_anyway = false;  ///< something was taken out of the text that this one comes from
};

/// A text that comes in pieces (the deltas of a stream) is searched as a whole, so that a secret that is cut in
/// pieces is found; each piece loses its share. O(body), with at most about as much memory as the body again.
[[nodiscard]] BodyRedaction redact_body(const BodyQuestion& question, const RedactionRules& rules,
                                        const std::vector<TakenText>& taken);

/// The pointer into answers that is meant: choices and tool calls say their number themselves (`index`), wherever they
/// stand, so that a number stands for all of them.
[[nodiscard]] JsonPointer answer_pointer(const JsonPointer& pointer);

/// The pointers into the events of a stream that reach what `pointer` reaches in the same API's whole answer. For an API
/// that is not known: those of all, and the pointer itself, which then speaks of the JSON of each event.
[[nodiscard]] std::vector<JsonPointer> stream_pointers(Api api, const JsonPointer& pointer);

}  // namespace verbatim::gateway
