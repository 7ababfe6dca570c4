#pragma once
// Records, wherever they are: in a log (audit/reader.hpp) or in an exported bundle (audit/bundle_reader.hpp).

#include "audit/key_chain.hpp"
#include "schema/canonical_json.hpp"
#include "schema/error.hpp"
#include "schema/uuid.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

/// A leaf as stored.
struct StoredLeaf {
  std::uint64_t index = 0;
  std::string bytes;  ///< canonical JSON: what was hashed
  Json json;          ///< the same, parsed
};

/// One exchange, or any other leaf, as `log list` shows it.
struct RecordSummary {
  Uuid id;
  std::uint64_t index = 0;                      ///< of the request leaf (or of the leaf itself)
  std::optional<std::uint64_t> response_index;  ///< absent while the exchange is open
  std::int64_t time_us = 0;
  std::string type, status, model, route, cache, tenant;
};

struct RecordPlace {
  Uuid id;
  std::uint64_t index = 0;  ///< of the request leaf
};

/// All conditions must hold. Times are Unix microseconds.
struct RecordFilter {
  std::optional<std::int64_t> since_us, until_us;
  std::string model, status, tenant;  ///< "" is any
  std::string type = "request";       ///< "request" is exchanges; "" leaves of every type
  std::uint64_t limit = 0;            ///< 0 is no limit
  bool newest_first = false;

  /// Sets since_us and until_us from RFC 3339 times or dates; "" leaves one open. `invalid_input`: malformed, or none between.
  [[nodiscard]] Result<void> set_times(std::string_view since, std::string_view until);
};

/// Whether all conditions hold but that of `status`: how an exchange ended is in another leaf, and costs looking.
[[nodiscard]] bool fits_but_for_status(const RecordFilter& filter, const RecordSummary& record);

/// One content of a leaf, opened.
struct OpenedContent {
  std::string field;
  std::array<std::uint8_t, 32> salt{};
  std::string bytes;
};

/// Leaves and their contents, for those who need not know where they lie. One thread at a time per object.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  [[nodiscard]] virtual std::string origin() const = 0;
  [[nodiscard]] virtual std::string vkey() const = 0;  ///< the key that signs, as of the last read
  /// All keys that have signed the log.
  [[nodiscard]] virtual Result<KeyChain> keys() = 0;
  /// The newest signed checkpoint, a signed note.
  [[nodiscard]] virtual Result<std::string> checkpoint() = 0;
  [[nodiscard]] virtual Result<StoredLeaf> leaf(std::uint64_t index) = 0;
  /// The leaves of one record: request and response, or the one leaf. `not_found` if there is none.
  [[nodiscard]] virtual Result<std::vector<StoredLeaf>> leaves_of(const Uuid& id) = 0;
  [[nodiscard]] virtual Result<std::vector<RecordSummary>> list(const RecordFilter& filter) = 0;
  /// Where the exchanges that fit are, by time, in as little memory as they can be named in.
  [[nodiscard]] virtual Result<std::vector<RecordPlace>> places(const RecordFilter& filter);
  /// Opens a content and checks it against its commitment. `not_found` (the leaf names no such content), `erased`,
  /// `tampered`, `unavailable` (who made the bundle did not disclose it: another bundle may).
  [[nodiscard]] virtual Result<OpenedContent> content(std::uint64_t index,
                                                      std::string_view field) = 0;
};

/// What content() says of one that was erased, and that `by` is the leaf of.
[[nodiscard]] Error erased_error(std::uint64_t index, std::string_view field,
                                 std::optional<std::uint64_t> by);

}  // namespace verbatim::audit
