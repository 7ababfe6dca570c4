#include "audit/signer.hpp"

#include "audit/merkle.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::size_t kSlotBytes = 4096;

std::string padded(const std::string& note) {
  VERBATIM_CHECK(note.size() <= kSlotBytes);
  return note + std::string(kSlotBytes - note.size(), '\n');
}

/// A slot's note, or "" if it is empty.
std::string unpadded(std::string_view slot) {
  const std::size_t end = slot.find_last_not_of('\n');
  return end == std::string_view::npos ? "" : std::string(slot.substr(0, end + 1)) + "\n";
}

}  // namespace

Result<NoteSigningKey> load_log_key(const std::filesystem::path& data_dir) {
  const auto path = data_dir / "log.key";
  const auto text = read_file(path, 4096);
  if (!text) return text.error();
  auto key = parse_skey(std::string_view(*text).substr(0, text->find('\n')));
  if (!key) {
    return Error{Errc::tampered, "the log's key is damaged: " + key.error().what, path.string(),
                 "restore it from its own backup"};
  }
  return key;
}

Result<HighWater> read_high_water(const std::filesystem::path& data_dir) {
  HighWater mark;
  const auto bytes = read_file(data_dir / "high-water", 2 * kSlotBytes);
  if (!bytes && bytes.error().code == Errc::not_found) return mark;
  mark.present = true;
  if (!bytes && bytes.error().code == Errc::storage_failed) return bytes.error();
  if (bytes) {
    for (std::size_t at = 0; at < bytes->size(); at += kSlotBytes) {
      mark.notes.push_back(unpadded(std::string_view(*bytes).substr(at, kSlotBytes)));
    }
  }
  mark.damaged = std::all_of(mark.notes.begin(), mark.notes.end(),
                             [](const std::string& note) { return note.empty(); });
  return mark;
}

std::uint64_t HighWater::claimed_size() const {
  std::uint64_t size = 0;
  for (const std::string& text : notes) {
    const auto note = parse_note(text);
    const auto head = note ? parse_checkpoint_text(note->text) : Result<Checkpoint>(note.error());
    if (head) size = std::max(size, head->size);
  }
  return size;
}

Result<Checkpoint> newest_mark(const HighWater& mark, const VerifierKey& key) {
  std::optional<Checkpoint> newest;
  for (const std::string& note : mark.notes) {
    auto checkpoint = open_checkpoint(note, key);
    if (!checkpoint || checkpoint->origin != key.name) continue;
    if (!newest || newest->size < checkpoint->size) newest = std::move(*checkpoint);
  }
  if (!newest) {
    return Error{Errc::tampered, "the high-water mark is not signed by the log's key", "high-water",
                 ""};
  }
  return *newest;
}

FileSigner::FileSigner(NoteSigningKey key, std::filesystem::path mark_path)
    : key_(std::move(key)), verifier_(key_.verifier()), mark_path_(std::move(mark_path)) {}

FileSigner::~FileSigner() {
  if (mark_fd_ < 0) return;
  ::fdatasync(mark_fd_);
  ::close(mark_fd_);
}

Result<std::unique_ptr<FileSigner>> FileSigner::create(const std::filesystem::path& data_dir,
                                                       const std::string& origin) {
  std::error_code ignored;
  if (!std::filesystem::exists(data_dir / "log.key", ignored)) {
    Ed25519Seed seed{};
    fill_random(seed);
    auto written = write_file(data_dir / "log.key", format_skey(origin, seed) + "\n", 0600);
    if (!written) return written.error();
  }
  if (!std::filesystem::exists(data_dir / "high-water", ignored)) {
    const auto key = load_log_key(data_dir);
    if (!key) return key.error();
    const std::string note = sign_note(checkpoint_text({key->name, 0, empty_root()}), *key);
    auto written =
        write_file(data_dir / "high-water", padded(note) + std::string(kSlotBytes, '\n'), 0600);
    if (!written) return written.error();
  }
  return open(data_dir);
}

Result<std::unique_ptr<FileSigner>> FileSigner::open(const std::filesystem::path& data_dir) {
  auto key = load_log_key(data_dir);
  if (!key) return key.error();
  std::unique_ptr<FileSigner> signer(new FileSigner(std::move(*key), data_dir / "high-water"));
  const auto mark = read_high_water(data_dir);
  if (!mark) return mark.error();
  if (!mark->present) {
    return Error{Errc::tampered, "the log's high-water mark is missing",
                 signer->mark_path_.string(),
                 "without it a log that was rolled back cannot be told from a whole one: restore "
                 "the file"};
  }
  auto last = newest_mark(*mark, signer->verifier_);
  if (!last) return last.error();
  signer->last_ = std::move(*last);
  // Never over the newer slot first.
  const auto first = open_checkpoint(mark->notes.front(), signer->verifier_);
  signer->next_slot_ = first && *first == signer->last_ ? 1 : 0;
  signer->mark_fd_ = ::open(signer->mark_path_.c_str(), O_RDWR | O_CLOEXEC);
  if (signer->mark_fd_ < 0) {
    return Error{Errc::storage_failed, "cannot open the high-water mark: " + errno_text(),
                 signer->mark_path_.string(), ""};
  }
  return signer;
}

Result<std::string> FileSigner::sign(const Checkpoint& checkpoint) {
  const bool forks = checkpoint.size < last_.size ||
                     (checkpoint.size == last_.size && checkpoint.root != last_.root);
  if (forks || checkpoint.origin != verifier_.name) {
    return Error{Errc::tampered,
                 "refused to sign a tree of " + std::to_string(checkpoint.size) +
                     " leaves after one of " + std::to_string(last_.size),
                 checkpoint.origin, ""};
  }
  return sign_note(checkpoint_text(checkpoint), key_);
}

Result<void> FileSigner::committed(const Checkpoint& checkpoint, const std::string& note) {
  const std::string slot = padded(note);
  const off_t at = static_cast<off_t>(next_slot_ * kSlotBytes);
  const ssize_t put = ::pwrite(mark_fd_, slot.data(), slot.size(), at);
  if (put != static_cast<ssize_t>(slot.size())) {
    return Error{Errc::storage_failed, "cannot write the high-water mark: " + errno_text(),
                 mark_path_.string(), ""};
  }
  next_slot_ = 1 - next_slot_;
  last_ = checkpoint;
  return {};
}

}  // namespace verbatim::audit
