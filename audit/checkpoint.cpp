#include "audit/checkpoint.hpp"

#include <algorithm>
#include <charconv>

namespace verbatim::audit {

namespace {

Error malformed(const std::string& what) {
  return Error{Errc::invalid_input, "not a checkpoint: " + what, "", ""};
}

}  // namespace

std::string checkpoint_text(const Checkpoint& checkpoint) {
  return checkpoint.origin + "\n" + std::to_string(checkpoint.size) + "\n" +
         to_base64(checkpoint.root.view()) + "\n";
}

Result<Checkpoint> parse_checkpoint_text(std::string_view text) {
  const auto origin = take_line(text);
  const auto size = take_line(text);
  const auto root = take_line(text);
  if (!root) return malformed("fewer than three lines");
  Checkpoint checkpoint;
  checkpoint.origin = *origin;
  if (origin->empty()) return malformed("no origin");
  const auto [end, error] =
      std::from_chars(size->data(), size->data() + size->size(), checkpoint.size);
  if (error != std::errc() || std::to_string(checkpoint.size) != *size) {
    return malformed("the size is not a plain decimal number");
  }
  const auto bytes = from_base64(*root);
  if (!bytes || bytes->size() != checkpoint.root.bytes.size()) {
    return malformed("the root is not 32 bytes in base64");
  }
  std::copy(bytes->begin(), bytes->end(), checkpoint.root.bytes.begin());
  while (!text.empty()) {
    const auto extension = take_line(text);
    if (!extension || extension->empty()) return malformed("an empty extension line");
  }
  return checkpoint;
}

Result<Checkpoint> open_checkpoint(std::string_view note, const VerifierKey& key) {
  const auto opened = open_note(note, {&key, 1});
  if (!opened) return opened.error();
  return parse_checkpoint_text(opened->text);
}

}  // namespace verbatim::audit
