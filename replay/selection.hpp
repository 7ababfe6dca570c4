#pragma once
// Which records a replay is about.

#include "audit/records.hpp"

#include <string>
#include <vector>

namespace verbatim::replay {

struct Selection {
  std::vector<std::string> ids;
  std::string since, until, model, tenant;
  std::uint64_t sample = 0;  ///< 0: all that fit
  /// Gives Selected::ids in the order of the draw: a run that ends before the last of them has looked at a sample too.
  bool in_draw_order = false;
  /// The signed checkpoint that a sample is drawn by, and beyond which no record is selected; "" is the newest.
  /// With the same one, the same records are selected, however the log has grown since.
  std::string checkpoint;
};

/// The sampling design: what was selected, from what, and by which checkpoint.
struct Selected {
  std::vector<Uuid> ids;       ///< oldest first, or in the order of the draw
  std::uint64_t matching = 0;  ///< records that fit, of which `ids` is a sample, or all
  std::string checkpoint;      ///< the signed note that it was drawn by, for Selection::checkpoint
  std::uint64_t tree_size = 0;
  std::string root;  ///< hexadecimal
};

/// A named record that was pruned is selected. `invalid_input` for a malformed id or time, or a checkpoint that this
/// log's key did not sign; `not_found` for an id that the log does not have.
///
/// A sample is drawn by the smallest SHA-256("verbatim/sample/v1" || 0x00 || checkpoint || record id), where `checkpoint` is
/// the text that is signed (origin, size, root), so that a cosignature more draws no other sample: uniform, and the
/// same for everyone who has the checkpoint. Who may choose the checkpoint may choose among samples: an auditor fixes it.
[[nodiscard]] Result<Selected> select(audit::RecordSource& reader, const Selection& selection);

/// One sentence for people: "a sample of 7 of the 40 exchanges that ...".
[[nodiscard]] std::string design_text(const Selection& selection, const Selected& selected);

}  // namespace verbatim::replay
