#include "local_engine/text/post_processor.hpp"

#include "local_engine/text/json_fields.hpp"

namespace verbatim::local_engine {

namespace {

constexpr int kNestingMax = 16;

std::vector<TokenId> special_ids(const Json& specials, const std::string& name) {
  const Json* special = member(specials, name.c_str());
  if (special == nullptr) malformed("tokenizer.json: special token '" + name + "' is not defined");
  std::vector<TokenId> ids;
  for (const Json& id : array(*special, "ids")) ids.push_back(as_id(id, "ids"));
  return ids;
}

PostProcessor read_template(const Json& json) {
  const Json none = Json::object();
  const Json* specials = member(json, "special_tokens");
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  int sequences = 0;
  for (const Json& piece : array(json, "single")) {
    if (member(piece, "Sequence") != nullptr) {
      ++sequences;
    } else {
      const std::string name = required_string(required(piece, "SpecialToken"), "id");
      auto& side = sequences == 0 ? before : after;
      for (const TokenId id : special_ids(specials == nullptr ? none : *specials, name)) {
        side.push_back(id);
      }
    }
  }
  if (sequences != 1) refuse("a TemplateProcessing without exactly one sequence is not supported");
  return {before, after};
}

/// ["[SEP]", 102]
TokenId read_pair(const Json& json, const char* name) {
  const Json& pair = required(json, name);
  if (!pair.is_array() || pair.size() != 2) {
    malformed("tokenizer.json: '" + std::string(name) + "' is not a pair of a text and an id");
  }
  return as_id(pair[1], name);
}

PostProcessor read(const Json& json, int depth) {
  if (depth > kNestingMax) malformed("tokenizer.json: post-processors are nested too deeply");
  const std::string type = required_string(json, "type");
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{read_pair(json, "cls")}, {read_pair(json, "sep")}};
  }
  if (type == "Sequence") {
    PostProcessor all;
    for (const Json& part : array(json, "processors")) all.wrap(read(part, depth + 1));
    return all;
  }
  refuse("post-processor " + type + " is not supported");
}

}  // namespace

std::vector<TokenId> PostProcessor::apply(const std::vector<TokenId>& ids) const {
  std::vector<TokenId> out = before_;
  out.insert(out.end(), ids.begin(), ids.end());
  out.insert(out.end(), after_.begin(), after_.end());
  return out;
}

void PostProcessor::wrap(const PostProcessor& outer) {
  before_.insert(before_.begin(), outer.before_.begin(), outer.before_.end());
  after_.insert(after_.end(), outer.after_.begin(), outer.after_.end());
}

PostProcessor read_post_processor(const Json* json) {
  return json == nullptr ? PostProcessor() : read(*json, 0);
}

}  // namespace verbatim::local_engine
