#include "audit/cosigned.hpp"

#include "audit/merkle.hpp"
#include "audit/read_connection.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <charconv>

namespace verbatim::audit {

namespace {

namespace fs = std::filesystem;

fs::path place_of(const fs::path& data_dir, std::uint64_t size) {
  return data_dir / "cosigned" / std::to_string(size);
}

/// The lines after the text and its empty line.
std::string_view lines_of(std::string_view note) { return note.substr(note.rfind("\n\n") + 2); }

/// Adds to `note` those of `lines` that it does not have, if both are of the same text.
std::string merged(std::string note, const std::string& other) {
  const auto mine = parse_note(note);
  const auto theirs = parse_note(other);
  if (!mine || !theirs || mine->text != theirs->text) return note;
  std::string_view lines = lines_of(other);
  while (const auto line = take_line(lines)) {
    const std::string whole = std::string(*line) + "\n";
    if (note.find("\n" + whole) == std::string::npos) note += whole;
  }
  return note;
}

}  // namespace

Result<void> keep_cosignature(const fs::path& data_dir, const std::string& note,
                              const VerifierKey& witness, std::string_view lines) {
  const auto answered = parse_note(note + std::string(lines));
  if (!answered) return answered.error();
  const auto head = parse_checkpoint_text(answered->text);
  if (!head) return head.error();
  std::string cosigned = note;
  bool valid = false;
  for (const NoteSignature& signature : answered->signatures) {
    if (!verify_cosignature(signature, answered->text, witness)) continue;
    cosigned += signature_line(signature.name, signature.key_id, signature.bytes);
    valid = true;
  }
  if (!valid) {
    return Error{Errc::tampered, "the witness answered without a valid cosignature of its own",
                 witness.str(), "check the key in the policy"};
  }
  const auto kept = read_file(place_of(data_dir, head->size), kNoteBytesMax);
  return keep_cosigned(data_dir, head->size, kept ? merged(*kept, cosigned) : cosigned);
}

Result<void> keep_cosigned(const fs::path& data_dir, std::uint64_t size, const std::string& note) {
  const fs::path path = place_of(data_dir, size);
  std::error_code error;
  if (fs::create_directory(path.parent_path(), error)) {
    fs::permissions(path.parent_path(), fs::perms(0700), error);
  }
  return write_file(path, note, 0600);
}

std::map<std::uint64_t, std::string> cosigned_checkpoints(const fs::path& data_dir) {
  std::map<std::uint64_t, std::string> notes;
  std::error_code error;
  for (fs::directory_iterator entry(data_dir / "cosigned", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::uint64_t size = 0;
    const auto [last, wrong] = std::from_chars(name.data(), name.data() + name.size(), size);
    if (wrong != std::errc() || last != name.data() + name.size()) continue;
    auto note = read_file(entry->path(), kNoteBytesMax);
    if (note && parse_note(*note)) notes.emplace(size, std::move(*note));
  }
  return notes;
}

std::string with_cosignatures(const fs::path& data_dir, const std::string& note) {
  const auto parsed = parse_note(note);
  const auto head = parsed ? parse_checkpoint_text(parsed->text) : Result<Checkpoint>(Error{});
  if (!head) return note;
  const auto kept = read_file(place_of(data_dir, head->size), kNoteBytesMax);
  return kept ? merged(note, *kept) : note;
}

Result<std::vector<Digest>> consistency_proof(const fs::path& data_dir, std::uint64_t first,
                                              std::uint64_t second) {
  auto connection = ReadConnection::open(data_dir / "log.db");
  if (!connection) return connection.error();
  return (*connection)->read([&](Queries& queries) -> Result<std::vector<Digest>> {
    const auto leaves = queries.leaf_count();
    if (!leaves) return leaves.error();
    if (second > *leaves) {
      return Error{Errc::invalid_input, "the log is not so large", std::to_string(second), ""};
    }
    return make_consistency_proof(queries.nodes(), first, second);
  });
}

}  // namespace verbatim::audit
