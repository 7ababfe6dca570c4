#include "replay/recorded_models.hpp"

#include "replay/recorded.hpp"

namespace verbatim::replay {

namespace {

std::string hex_or_none(const Digest& digest) { return digest == Digest{} ? "" : digest.hex(); }

}  // namespace

ModelParts parts_of(const local_engine::Fingerprint& print) {
  return {print.tensors_sha256.hex(), print.config_sha256.hex(),
          hex_or_none(print.tokenizer_sha256), hex_or_none(print.chat_template_sha256)};
}

std::vector<ModelPart> changed_parts(const ModelParts& a, const ModelParts& b) {
  std::vector<ModelPart> changed;
  if (a.tensors != b.tensors) changed.push_back({"tensors", "weights_differ"});
  if (a.config != b.config) changed.push_back({"configuration", "config_differs"});
  if (a.tokenizer != b.tokenizer) changed.push_back({"tokenizer", "tokenizer_differs"});
  if (a.chat_template != b.chat_template) changed.push_back({"chat template", "template_differs"});
  return changed;
}

std::optional<ModelParts> RecordedModels::find(audit::RecordSource& reader,
                                               const std::string& weights_sha256) {
  const std::lock_guard lock(mutex_);
  if (!known_) {
    known_.emplace();
    audit::RecordFilter filter;
    filter.type = "model";
    const auto records = reader.list(filter);
    if (!records) return std::nullopt;
    for (const auto& record : *records) {
      const auto leaf = reader.leaf(record.index);
      if (!leaf) continue;  // pruned
      const ModelParts parts = {
          text_at(leaf->json, {"tensors_sha256"}), text_at(leaf->json, {"config_sha256"}),
          text_at(leaf->json, {"tokenizer_sha256"}), text_at(leaf->json, {"chat_template_sha256"})};
      if (!parts.tensors.empty())
        known_->insert_or_assign(text_at(leaf->json, {"weights_sha256"}), parts);
    }
  }
  const auto found = known_->find(weights_sha256);
  return found == known_->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace verbatim::replay
