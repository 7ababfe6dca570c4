#pragma once
// What a record keeps of its activations, beside its tokens: the fingerprint, and digests of its layers.

#include "replay/replayer.hpp"

#include <vector>

namespace verbatim::replay {

/// Does the leaf of an answer commit to digests of its layers?
[[nodiscard]] bool keeps_layers(const audit::StoredLeaf& response);

/// Gives each choice its part of `response.fingerprint`, if the record keeps one: one choice after another. `hidden` is
/// the width of the engine's last hidden state. `invalid_input` if it is not of these answers; other errors as
/// RecordSource::content() gives them.
[[nodiscard]] Result<void> read_fingerprint(audit::RecordSource& reader,
                                            const audit::StoredLeaf& response, std::size_t hidden,
                                            std::vector<RecordedChoice>& choices);

/// Adds to `verdict` what --explain and --against find: where the engine's computation parts from the recorded one, or from
/// another engine's. What cannot be compared says why. Adds too what the leaf commits to and nobody disclosed.
void explain(audit::RecordSource& reader, const audit::StoredLeaf& response, const ReplayWith& with,
             local_engine::Engine& engine, const std::vector<RecordedChoice>& choices,
             Verdict& verdict);

/// Other weights than the recorded ones judge nobody. But what the record keeps of its activations is measured
/// against theirs, and the digests of its layers tell where they begin to be others. An error means that the engine
/// failed its check.
[[nodiscard]] Result<void> measure_other_weights(audit::RecordSource& reader,
                                                 const audit::StoredLeaf& response,
                                                 const ReplayWith& with,
                                                 std::vector<RecordedChoice> choices,
                                                 Verdict& verdict);

}  // namespace verbatim::replay
