#pragma once
// What the log says of the models that a gateway served: the digests of their parts.

#include "audit/records.hpp"
#include "local_engine/fingerprint.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// Digests in hexadecimal; "" for a part that the model does not have.
struct ModelParts {
  std::string tensors, config, tokenizer, chat_template;
};

[[nodiscard]] ModelParts parts_of(const local_engine::Fingerprint& print);

/// A part that is not the same, and the reason that it gives to a verdict.
struct ModelPart {
  const char* name;
  const char* reason;
};
/// In the order tensors, configuration, tokenizer, template.
[[nodiscard]] std::vector<ModelPart> changed_parts(const ModelParts& a, const ModelParts& b);

/// Reads the log's `model` leaves when one is first asked for, and keeps them. Any thread may call.
class RecordedModels {
 public:
  /// Nothing if no leaf names these weights, or only one of an earlier version, which does not tell of parts.
  [[nodiscard]] std::optional<ModelParts> find(audit::RecordSource& reader,
                                               const std::string& weights_sha256);

 private:
  std::mutex mutex_;  // guards known_
  std::optional<std::map<std::string, ModelParts>> known_;
};

}  // namespace verbatim::replay
