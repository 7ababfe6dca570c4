#include "audit/witness.hpp"

#include "audit/checkpoint.hpp"
#include "audit/policy.hpp"
#include "schema/file.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::size_t kProofHashesMax = 63;
constexpr const char* kText = "text/plain; charset=utf-8";
constexpr std::string_view kTables = R"(
    CREATE TABLE IF NOT EXISTS log (
      origin TEXT    PRIMARY KEY,
      size   INTEGER NOT NULL,                          -- of the last tree that was cosigned
      root   BLOB    NOT NULL CHECK (length(root) = 32),
      note   TEXT    NOT NULL                           -- the log's, with the cosignature
    ) STRICT)";

Error malformed(const char* what) { return Error{Errc::invalid_input, what, "add-checkpoint", ""}; }

std::optional<std::uint64_t> size_from(std::string_view text) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  // Exactly as it would be printed: no leading zeros.
  if (error != std::errc() || std::to_string(size) != text) return std::nullopt;
  return size;
}

WitnessAnswer refuse(int status, const std::string& why) { return {status, kText, why + "\n"}; }

/// What was cosigned. Made only where there is no key yet: a witness that forgot would cosign a rollback.
Result<Database> open_memory(const std::filesystem::path& path, bool is_new) {
  const Error lost{
      Errc::tampered, "the witness has lost its memory: under this key it could contradict itself",
      path.string(), "put the file back, or begin anew in another folder and under another name"};
  auto db = Database::open(path, is_new ? Database::Mode::create : Database::Mode::write);
  if (!db) return db.error().code == Errc::not_found ? lost : db.error();
  auto set = db->execute("PRAGMA synchronous=EXTRA");
  if (set && is_new) set = db->execute(kTables);
  if (!set) return set.error();
  {
    Statement select(*db, "SELECT 1 FROM sqlite_master WHERE name = 'log'");
    Rows rows = select.run();
    const auto has_table = rows.next();
    if (!has_table) return has_table.error();
    if (!*has_table) return lost;
  }
  return db;
}

}  // namespace

std::string format_witness_request(const WitnessRequest& request) {
  std::string body = "old " + std::to_string(request.old_size) + "\n";
  for (const Digest& hash : request.proof) body += to_base64(hash.view()) + "\n";
  return body + "\n" + request.checkpoint;
}

Result<WitnessRequest> parse_witness_request(std::string_view body) {
  if (body.size() > kNoteBytesMax) return malformed("the request is larger than 1 MiB");
  WitnessRequest request;
  auto line = take_line(body);
  if (!line || !line->starts_with("old ")) return malformed("the first line is not 'old SIZE'");
  const auto size = size_from(line->substr(4));
  if (!size) return malformed("the old size is no number");
  request.old_size = *size;
  while ((line = take_line(body)) && !line->empty()) {
    if (request.proof.size() == kProofHashesMax) return malformed("more than 63 hashes");
    const auto hash = from_base64(*line);
    if (!hash || hash->size() != 32) return malformed("a hash is not 32 bytes in base64");
    std::copy(hash->begin(), hash->end(), request.proof.emplace_back().bytes.begin());
  }
  if (!line) return malformed("no empty line follows the proof");
  request.checkpoint = body;
  return request;
}

Witness::Witness(NoteSigningKey key, std::vector<VerifierKey> logs, Database db, const Clock& clock)
    : key_(std::move(key)), logs_(std::move(logs)), clock_(clock), db_(std::move(db)) {}

Result<std::unique_ptr<Witness>> Witness::open(const std::filesystem::path& folder,
                                               const std::string& name,
                                               std::vector<VerifierKey> logs, const Clock& clock) {
  if (logs.empty() || !is_key_name(name) || name.size() > 255) {
    return Error{Errc::invalid_input,
                 "a witness has a name (1 to 255 bytes, no white space, no '+') and knows a log",
                 name, ""};
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path = folder / "witness.key";
  const bool is_new = !std::filesystem::exists(path, error);
  // The memory is there before the key is: a key without a memory has lost it.
  auto db = open_memory(folder / "witness.db", is_new);
  if (!db) return db.error();
  if (is_new) {
    Ed25519Seed seed{};
    fill_random(seed);
    if (auto made = write_file(path, format_skey(name, seed) + "\n", 0600); !made) {
      return made.error();
    }
  }
  const auto text = read_file(path, 4096);
  if (!text) return text.error();
  auto key = parse_skey(std::string_view(*text).substr(0, text->find('\n')));
  if (!key) return Error{Errc::tampered, "the witness's key is damaged", path.string(), ""};
  if (key->name != name) {
    return Error{Errc::invalid_input, "the witness in this folder has another name: " + key->name,
                 path.string(), "give that name, or another folder"};
  }
  return std::unique_ptr<Witness>(
      new Witness(std::move(*key), std::move(logs), std::move(*db), clock));
}

VerifierKey Witness::key() const { return {key_.name, kNoteCosignature, key_.key.public_key()}; }

std::vector<VerifierKey> Witness::keys_of(std::string_view origin) const {
  std::vector<VerifierKey> keys;
  for (const VerifierKey& key : logs_) {
    if (key.name == origin) keys.push_back(key);
  }
  return keys;
}

Result<Witness::Last> Witness::last_of(const std::string& origin) {
  Rows rows = select_.run(origin);
  const auto row = rows.next();
  if (!row) return row.error();
  Last last;
  if (!*row) return last;
  last.size = rows.size(0);
  const Bytes root = rows.blob(1);
  if (root.size() != last.root.bytes.size()) return db_.failure("a stored root is no hash");
  std::copy(root.begin(), root.end(), last.root.bytes.begin());
  return last;
}

WitnessAnswer Witness::add_checkpoint(std::string_view body) {
  // 1. What is asked, and by which log.
  const auto request = parse_witness_request(body);
  if (!request) return refuse(400, request.error().what);
  const auto note = parse_note(request->checkpoint);
  const auto head = note ? parse_checkpoint_text(note->text) : Result<Checkpoint>(note.error());
  if (!head) return refuse(400, head.error().what);
  const auto keys = keys_of(head->origin);
  if (keys.empty()) return refuse(404, "this witness does not know the log");
  const auto opened = open_note(request->checkpoint, keys);
  if (!opened) {
    return refuse(403, "this log is known, and the checkpoint is not signed by a known key of it");
  }
  if (request->old_size > head->size) return refuse(400, "the old size is beyond the checkpoint");

  // 2. Whether it goes on from the last.
  const std::lock_guard lock(mutex_);
  const auto last = last_of(head->origin);
  if (!last) return refuse(500, "the witness cannot read its state");
  if (request->old_size != last->size) {
    return {409, "text/x.tlog.size", std::to_string(last->size) + "\n"};
  }
  const bool follows =
      last->size == 0
          ? request->proof.empty() && (head->size > 0 || head->root == empty_root())
          : verify_consistency(last->size, head->size, last->root, head->root, request->proof);
  if (!follows)
    return refuse(422, "what this witness cosigned last is not shown to be a part of this log");

  // 3. Remembered before it is said.
  const auto seconds = static_cast<std::uint64_t>(clock_.now_us() / 1'000'000);
  const std::string line = cosign(note->text, key_.name, key_.key, seconds);
  // The log's own signatures and ours. Anybody can add lines under a note: kept, they would crowd these out.
  std::string cosigned = note->text + "\n";
  for (const NoteSignature& signature : opened->verified)
    cosigned += signature_line(signature.name, signature.key_id, signature.bytes);
  cosigned += line;
  const Bytes old_root = last->root.view();
  auto kept =
      update_.run(head->origin, head->size, head->root.view(), cosigned, last->size, old_root)
          .finish();
  if (kept && sqlite3_changes(db_.get()) == 0) {
    // The first of this log. If another process was quicker, the origin is taken, and this fails.
    kept = insert_.run(head->origin, head->size, head->root.view(), cosigned).finish();
  }
  if (!kept) return refuse(500, "the witness cannot write its state");
  return {200, kText, line};
}

WitnessAnswer Witness::read(std::string_view path) {
  const std::lock_guard lock(mutex_);
  for (const VerifierKey& log : logs_) {
    if (path != sha256(log.name).hex() + "/checkpoint") continue;
    Rows rows = select_.run(log.name);
    const auto row = rows.next();
    if (!row) return refuse(500, "the witness cannot read its state");
    if (*row) return {200, kText, rows.text(2)};
  }
  return refuse(404, "no checkpoint of such a log");
}

}  // namespace verbatim::audit
