#pragma once
// How much of an exchange is stored. First the redaction rules take out what must not be, from copies; then the level
// decides what of these copies is kept. Whatever reaches the record, digests and facts included, is made of the redacted
// copies, so that nothing in it gives away what was taken out.

#include "audit/log.hpp"
#include "gateway/body_redaction.hpp"
#include "gateway/body_sample.hpp"
#include "gateway/http.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// In ascending order of what is stored.
enum class CaptureLevel {
  metadata,  ///< the leaves alone
  hashes,    ///< also length and SHA-256 of each body, as a content of its own
  full,
};
[[nodiscard]] std::string_view capture_level_name(CaptureLevel level);

struct CaptureRule {
  std::string name;
  RouteMatch where;
  CaptureLevel level = CaptureLevel::full;
};

/// For one exchange.
class Capture {
 public:
  /// Stores everything as it came.
  Capture() = default;
  /// The first rule that fits decides the level; without one it is full. Where a server could read the path in several
  /// ways, the highest level that any of them gives, and the redaction rules of all: how a client writes a path gets it
  /// no lower level. A target that is no path has the lowest of all levels, and all redaction rules.
  Capture(const std::vector<CaptureRule>& levels, const RedactionRules& rules,
          const RequestHead& head, std::string_view upstream);

  [[nodiscard]] bool as_it_came() const { return level_ == CaptureLevel::full && rules_.empty(); }
  [[nodiscard]] bool redacts() const { return !rules_.empty(); }
  [[nodiscard]] CaptureLevel level() const { return level_; }
  /// True if the bodies that were seen so far, and the target, are stored as they came: who has the record can have the
  /// answer again.
  [[nodiscard]] bool repeatable() const { return level_ == CaptureLevel::full && !changed_; }

  /// The redacted copy of a target, a head, a message; counted under `field`.
  [[nodiscard]] std::string target(std::string_view target);
  /// `own`: a field that stays as it is; "" for none.
  [[nodiscard]] Fields fields(const Fields& fields, const std::string& field,
                              std::string_view own = "");
  [[nodiscard]] std::string message(std::string_view text);

  struct Body {
    bool kept = true;   ///< false: nothing of it may be stored or told
    std::string bytes;  ///< for the record; decoded if something was taken out of a coded body
    std::string text;   ///< the same, decoded
    BodyRedaction redaction;  ///< of the decoded body
  };
  struct BodyKind {
    std::string_view content_type, coding;
    Api api = Api::generic;
    bool answer = false;
    std::size_t decoded_bytes_max = 0;  ///< longer bodies are not read, and then not kept
  };
  /// The redacted copy of a body. Only if redacts().
  [[nodiscard]] Body body(std::string_view bytes, const BodyKind& kind, const std::string& field);

  /// Adds a content as the level has it. `digest`: the field of a body's digest at level `hashes`; "" for what then goes.
  void keep(audit::LeafDraft& draft, const std::string& field, std::string bytes,
            const std::string& digest = "");
  /// The same for a body (`part`: "request" or "response") that passed without being kept.
  void keep_sample(audit::LeafDraft& draft, BodySample& sample, const std::string& part);
  /// The same for any bytes that passed: their beginning under `field`, their length and digest under `digest`. Returns
  /// `about`, the leaf's member about them, with how many are recorded.
  [[nodiscard]] Json keep_passed(audit::LeafDraft& draft, BodySample& sample,
                                 const std::string& field, Json about, std::string digest = "");
  void leave_out(const std::string& field, std::string_view reason);
  [[nodiscard]] std::string_view reason() const {
    return level_ == CaptureLevel::full ? "redacted" : "level";
  }

  /// Member `capture` of a leaf: what of it is not as it came; null if all is. Begins anew for the next leaf.
  [[nodiscard]] Json take_description();

 private:
  void count(const std::string& field, const RedactionCounts& counts);
  [[nodiscard]] bool has_pointers() const;

  CaptureLevel level_ = CaptureLevel::full;
  std::string level_rule_;
  RedactionRules rules_;
  std::vector<TakenText> taken_;  // out of the request
  bool taken_more_ = false;       // and more than answers are searched for
  bool changed_ = false;
  std::map<std::string, RedactionCounts> redacted_;  // by field
  std::map<std::string, std::string> left_out_;      // field -> reason
};

}  // namespace verbatim::gateway
