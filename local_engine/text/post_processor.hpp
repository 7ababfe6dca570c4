#pragma once
// tokenizer.json's post-processors: the special tokens around a sequence.

#include "local_engine/token.hpp"
#include "schema/canonical_json.hpp"

#include <vector>

namespace verbatim::local_engine {

/// Ids before and after the text, as one template or several in turn make them.
class PostProcessor {
 public:
  /// Adds nothing.
  PostProcessor() = default;
  PostProcessor(std::vector<TokenId> before, std::vector<TokenId> after)
      : before_(std::move(before)), after_(std::move(after)) {}

  /// The ids of a text, with the special tokens around them.
  [[nodiscard]] std::vector<TokenId> apply(const std::vector<TokenId>& ids) const;
  /// What apply() puts in front.
  [[nodiscard]] const std::vector<TokenId>& before() const { return before_; }
  /// Puts `outer` around what this one makes.
  void wrap(const PostProcessor& outer);

 private:
  std::vector<TokenId> before_;
  std::vector<TokenId> after_;
};

/// Reads the "post_processor" member. Supported: TemplateProcessing (with the sequence once), ByteLevel,
/// BertProcessing, RobertaProcessing, Sequence. Throws Fault: `unsupported` with the name of any other type.
[[nodiscard]] PostProcessor read_post_processor(const Json* json);

}  // namespace verbatim::local_engine
