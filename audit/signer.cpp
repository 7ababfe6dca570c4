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

/// The place of the file in which the next key waits.
std::filesystem::path next_path(const std::filesystem::path& data_dir) {
  return data_dir / "log.key.next";
}

}  // namespace

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

Result<Checkpoint> newest_mark(const HighWater& mark, std::span<const VerifierKey> keys) {
  std::optional<Checkpoint> newest;
  for (const std::string& note : mark.notes) {
    const auto opened = open_note(note, keys);
    if (!opened) continue;
    auto checkpoint = parse_checkpoint_text(opened->text);
    if (!checkpoint || checkpoint->origin != keys.front().name) continue;
    if (!newest || newest->size < checkpoint->size) newest = std::move(*checkpoint);
  }
  if (!newest) {
    return Error{Errc::tampered, "the high-water mark is not signed by the log's key", "high-water",
                 ""};
  }
  return *newest;
}

FileSigner::FileSigner(LogKeys keys, std::filesystem::path data_dir)
    : data_dir_(std::move(data_dir)), mark_path_(data_dir_ / "high-water") {
  sign_with(std::move(keys));
}

void FileSigner::sign_with(LogKeys keys) {
  keys_ = std::move(keys);
  verifiers_.clear();
  for (const auto& key : keys_) verifiers_.push_back(key->verifier());
}

/// A key that is open already is not opened again: a token would be logged in to once more.
Result<std::shared_ptr<LogKey>> FileSigner::opened(const KeyLine& line) const {
  if (next_ && next_->verifier() == line.key) return next_;
  for (const auto& key : keys_) {
    if (key->verifier() == line.key) return key;
  }
  return open_key(line);
}

FileSigner::~FileSigner() {
  if (mark_fd_ < 0) return;
  ::fdatasync(mark_fd_);
  ::close(mark_fd_);
}

Result<std::unique_ptr<FileSigner>> FileSigner::create(const std::filesystem::path& data_dir,
                                                       const std::string& origin,
                                                       const std::string& place) {
  std::error_code ignored;
  if (!std::filesystem::exists(data_dir / "log.key", ignored)) {
    const auto key = new_key(origin, place);
    if (!key) return key.error();
    auto written = write_file(data_dir / "log.key", key->text + "\n", 0600);
    if (!written) return written.error();
  }
  if (!std::filesystem::exists(data_dir / "high-water", ignored)) {
    const auto key = load_log_key(data_dir);
    if (!key) return key.error();
    const Checkpoint empty{(*key)->verifier().name, 0, empty_root()};
    const auto note = sign_note(checkpoint_text(empty), LogKeys{*key});
    if (!note) return note.error();
    auto written =
        write_file(data_dir / "high-water", padded(*note) + std::string(kSlotBytes, '\n'), 0600);
    if (!written) return written.error();
  }
  return open(data_dir);
}

Result<std::unique_ptr<FileSigner>> FileSigner::open(const std::filesystem::path& data_dir) {
  const auto lines = read_key_file(data_dir / "log.key");
  if (!lines) return lines.error();
  LogKeys keys;
  for (const KeyLine& line : *lines) {
    auto key = open_key(line);
    if (!key) return key.error();
    keys.push_back(std::move(*key));
  }
  std::unique_ptr<FileSigner> signer(new FileSigner(std::move(keys), data_dir));
  const auto mark = read_high_water(data_dir);
  if (!mark) return mark.error();
  if (!mark->present) {
    return Error{Errc::tampered, "the log's high-water mark is missing",
                 signer->mark_path_.string(),
                 "without it a log that was rolled back cannot be told from a whole one: restore "
                 "the file"};
  }
  auto last = newest_mark(*mark, signer->verifiers_);
  if (!last) return last.error();
  signer->last_ = std::move(*last);
  // Never over the newer slot first.
  const HighWater first_slot{true, false, {mark->notes.front()}};
  const auto first = newest_mark(first_slot, signer->verifiers_);
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
  if (forks || checkpoint.origin != key().name) {
    return Error{Errc::tampered,
                 "refused to sign a tree of " + std::to_string(checkpoint.size) +
                     " leaves after one of " + std::to_string(last_.size),
                 checkpoint.origin, ""};
  }
  return sign_note(checkpoint_text(checkpoint), keys_);
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

Result<VerifierKey> FileSigner::prepare_next(const std::string& place,
                                             const std::vector<VerifierKey>& used) {
  const auto line = new_key(key().name, place);
  if (!line) return line.error();
  if (std::find(used.begin(), used.end(), line->key) != used.end()) {
    return Error{Errc::invalid_input, "this key has signed the log already: " + line->key.str(),
                 place, "a key that follows is another one"};
  }
  auto key = open_key(*line);
  if (!key) return key.error();
  auto written = write_file(next_path(data_dir_), line->text + "\n", 0600);
  if (!written) return written.error();
  next_ = std::move(*key);
  return next_->verifier();
}

Result<std::string> FileSigner::sign_rotation(const KeyRotation& rotation) {
  VERBATIM_CHECK(next_ != nullptr);
  return sign_note(rotation_text(rotation), LogKeys{keys_.front(), next_});
}

void FileSigner::use_next() {
  VERBATIM_CHECK(next_ != nullptr);
  LogKeys keys{next_};
  keys.insert(keys.end(), keys_.begin(), keys_.end());
  sign_with(std::move(keys));
}

void FileSigner::drop_next() {
  next_.reset();
  sign_with({keys_.begin() + 1, keys_.end()});
}

Result<void> FileSigner::keep(const std::vector<VerifierKey>& keys) {
  const auto path = data_dir_ / "log.key";
  auto lines = read_key_file(path);
  if (!lines) return lines.error();
  const auto next = read_key_file(next_path(data_dir_));
  if (next) lines->insert(lines->end(), next->begin(), next->end());
  std::string text;
  LogKeys kept;
  for (const VerifierKey& key : keys) {
    const auto line = std::find_if(lines->begin(), lines->end(),
                                   [&](const KeyLine& each) { return each.key == key; });
    if (line == lines->end()) {
      if (!kept.empty()) continue;  // an older key that is lost: the newest signs alone
      return Error{Errc::tampered, "the key that signs this log is not here: " + key.str(),
                   path.string(), "restore log.key"};
    }
    auto private_key = opened(*line);
    if (!private_key) return private_key.error();
    text += line->text + "\n";
    kept.push_back(std::move(*private_key));
  }
  const auto stored = read_file(path, 4096);
  if (!stored || *stored != text) {
    if (auto written = write_file(path, text, 0600); !written) return written;
  }
  // A crash before this: it is found again, and removed, when the log is opened.
  std::error_code ignored;
  std::filesystem::remove(next_path(data_dir_), ignored);
  next_.reset();
  sign_with(std::move(kept));
  return {};
}

}  // namespace verbatim::audit
