#include "audit/keys.hpp"

#include "audit/schema_check.hpp"
#include "schema/digest.hpp"
#include "schema/file.hpp"

#include <kKeysMigration0001.hpp>

#include <algorithm>

namespace verbatim::audit {

namespace {

constexpr std::size_t kCachedMax = 65'536;

std::string kek_purpose(std::int64_t id, const std::string& subject) {
  return "verbatim/kek/v1/" + std::to_string(id) + "/" + subject;
}

std::string secret_purpose(const std::string& name) { return "verbatim/secret/v1/" + name; }

Result<SymmetricKey> load_master(const std::filesystem::path& path, bool create) {
  std::error_code ignored;
  if (create && !std::filesystem::exists(path, ignored)) {
    const SymmetricKey key = random_key();
    auto written = write_file(path, to_hex(key) + "\n", 0600);
    if (!written) return written.error();
    return key;
  }
  const auto text = read_file(path, 4096);
  if (!text) return text.error();
  const auto bytes = from_hex(std::string_view(*text).substr(0, 64));
  SymmetricKey key{};
  if (text->size() != 65 || !bytes || bytes->size() != key.size()) {
    return Error{Errc::tampered, "the master key is not 64 hexadecimal digits", path.string(),
                 "restore it from its own backup"};
  }
  std::copy(bytes->begin(), bytes->end(), key.begin());
  return key;
}

Result<void> check_version(Database& db) {
  const auto version = db.integer("PRAGMA user_version");
  if (!version) return version.error();
  const auto application = db.integer("PRAGMA application_id");
  if (!application) return application.error();
  if (*application != kKeysApplicationId || *version < kKeysVersion) {
    return Error{Errc::tampered, "not a database of verbatim's keys", db.path().string(), ""};
  }
  if (*version > kKeysVersion) {
    return Error{Errc::newer_version, "the keys were written by a newer verbatim",
                 db.path().string(), "use that version"};
  }
  return {};
}

Result<void> migrate(Database& db) {
  const auto version = db.integer("PRAGMA user_version");
  if (!version) return version.error();
  const auto application = db.integer("PRAGMA application_id");
  if (!application) return application.error();
  if (*version == 0 && *application == 0) {
    // A rollback journal: a reader then leaves no -wal and -shm files behind, and writes are rare.
    auto made = db.execute("PRAGMA synchronous=EXTRA; PRAGMA secure_delete=ON; BEGIN IMMEDIATE;" +
                           std::string(kKeysMigration0001) + "PRAGMA application_id=" +
                           std::to_string(kKeysApplicationId) + "; PRAGMA user_version=1; COMMIT");
    if (!made) return made.error();
    return {};
  }
  if (auto known = check_version(db); !known) return known;
  return db.execute("PRAGMA synchronous=EXTRA; PRAGMA secure_delete=ON");
}

}  // namespace

SymmetricKey random_key() {
  SymmetricKey key{};
  fill_random(key);
  return key;
}

std::string wrap_key(Aead& aead, const SymmetricKey& wrapping, const SymmetricKey& key,
                     std::string_view purpose) {
  return aead.seal(wrapping, {Bytes(key)}, as_bytes(purpose));
}

Result<SymmetricKey> unwrap_key(Aead& aead, const SymmetricKey& wrapping, Bytes wrapped,
                                std::string_view purpose) {
  const auto bytes = aead.open(wrapping, wrapped, as_bytes(purpose));
  if (!bytes) return bytes.error();
  SymmetricKey key{};
  if (bytes->size() != key.size()) {
    return Error{Errc::tampered, "a wrapped key has the wrong length", "", ""};
  }
  std::copy(bytes->begin(), bytes->end(), key.begin());
  return key;
}

Result<std::unique_ptr<Keys>> Keys::open(const std::filesystem::path& data_dir, Mode mode) {
  const std::filesystem::path path = data_dir / "keys.db";
  const auto master = load_master(data_dir / "master.key", mode == Mode::create);
  if (!master) return master.error();
  const Database::Mode modes[] = {Database::Mode::create, Database::Mode::write,
                                  Database::Mode::read};
  auto db = Database::open(path, modes[static_cast<int>(mode)]);
  if (!db) return db.error();
  if (mode == Mode::read) {
    if (auto known = check_version(*db); !known) return known.error();
  } else if (auto migrated = migrate(*db); !migrated) {
    return migrated.error();
  }
  if (auto ours = require_schema(*db, kKeysMigration0001); !ours) return ours.error();
  std::unique_ptr<Keys> keys(new Keys(std::move(*db)));
  keys->master_ = *master;
  auto loaded = keys->load();
  if (!loaded) return loaded.error();
  return keys;
}

Result<void> Keys::load() {
  {
    Rows rows = select_meta_.run(std::string_view("keys_id"));
    const auto found = rows.next();
    if (!found) return found.error();
    if (*found) {
      id_ = rows.text(0);
      return {};
    }
  }
  std::array<std::uint8_t, 16> random;
  fill_random(random);
  id_ = to_hex(random);
  return insert_meta_.run(std::string_view("keys_id"), id_).finish();
}

Result<void> Keys::check_master() {
  const std::lock_guard lock(mutex_);
  std::string name;
  std::string wrapped;
  {
    Rows rows = first_secret_.run();
    const auto row = rows.next();
    if (!row) return row.error();
    if (!*row) return {};
    name = rows.text(0);
    wrapped = rows.text(1);
  }
  const auto opened = unwrap_key(aead_, master_, as_bytes(wrapped), secret_purpose(name));
  if (opened) return {};
  return Error{Errc::tampered, "master.key does not open keys.db", db_.path().string(),
               "restore the master key that belongs to it"};
}

Result<SubjectKey> Keys::subject_key(const std::string& subject) {
  const std::lock_guard lock(mutex_);
  const auto cached = by_subject_.find(subject);
  if (cached != by_subject_.end()) return cached->second;
  if (by_subject_.size() >= kCachedMax) by_subject_.clear();
  SubjectKey found;
  std::string wrapped;
  {
    Rows rows = select_subject_.run(subject);
    const auto row = rows.next();
    if (!row) return row.error();
    if (*row) {
      found.id = rows.integer(0);
      wrapped = rows.text(1);
    }
  }
  if (wrapped.empty()) return make_subject_key(subject);
  const auto key = unwrap_key(aead_, master_, as_bytes(wrapped), kek_purpose(found.id, subject));
  if (!key) return key.error();
  found.key = *key;
  by_subject_[subject] = found;
  return found;
}

Result<SubjectKey> Keys::make_subject_key(const std::string& subject) {
  SubjectKey made;
  {
    Rows rows = next_id_.run();
    const auto row = rows.next();
    if (!row) return row.error();
    made.id = rows.integer(0);
  }
  made.key = random_key();
  const std::string wrapped = wrap_key(aead_, master_, made.key, kek_purpose(made.id, subject));
  auto inserted = insert_kek_.run(made.id, subject, as_bytes(wrapped)).finish();
  if (!inserted) return inserted.error();
  by_subject_[subject] = made;
  return made;
}

Result<std::optional<std::int64_t>> Keys::live_key(const std::string& subject) {
  const std::lock_guard lock(mutex_);
  Rows rows = select_subject_.run(subject);
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row) return std::optional<std::int64_t>();
  return std::optional(rows.integer(0));
}

Result<void> Keys::forget(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  by_id_.erase(id);
  std::erase_if(by_subject_, [&](const auto& entry) { return entry.second.id == id; });
  if (auto forgotten = forget_kek_.run(id).finish(); !forgotten) return forgotten;
  // Nobody is told that it is gone because a statement did not fail.
  Rows rows = select_kek_.run(id);
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row || rows.is_null(1)) return {};
  return Error{Errc::storage_failed, "the key " + std::to_string(id) + " is still there",
               db_.path().string(), "`verbatim verify` says more"};
}

Result<SymmetricKey> Keys::key(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  const auto cached = by_id_.find(id);
  if (cached != by_id_.end()) return cached->second;
  if (by_id_.size() >= kCachedMax) by_id_.clear();
  std::string subject;
  std::string wrapped;
  {
    Rows rows = select_kek_.run(id);
    const auto row = rows.next();
    if (!row) return row.error();
    const std::string where = "key " + std::to_string(id);
    if (!*row) return Error{Errc::not_found, "the contents' key is missing", where, ""};
    if (rows.is_null(1)) return Error{Errc::erased, "the contents' key was erased", where, ""};
    subject = rows.text(0);
    wrapped = rows.text(1);
  }
  const auto key = unwrap_key(aead_, master_, as_bytes(wrapped), kek_purpose(id, subject));
  if (!key) return key.error();
  by_id_[id] = *key;
  return *key;
}

Result<SymmetricKey> Keys::secret(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto cached = secrets_.find(name);
  if (cached != secrets_.end()) return cached->second;
  if (secrets_.size() >= kCachedMax) secrets_.clear();
  const std::string purpose = secret_purpose(name);
  std::string wrapped;
  {
    Rows rows = select_secret_.run(name);
    const auto row = rows.next();
    if (!row) return row.error();
    if (*row) wrapped = rows.text(0);
  }
  SymmetricKey key{};
  if (wrapped.empty()) {
    key = random_key();
    wrapped = wrap_key(aead_, master_, key, purpose);
    auto inserted = insert_secret_.run(name, as_bytes(wrapped)).finish();
    if (!inserted) return inserted.error();
  } else {
    const auto opened = unwrap_key(aead_, master_, as_bytes(wrapped), purpose);
    if (!opened) return opened.error();
    key = *opened;
  }
  secrets_[name] = key;
  return key;
}

}  // namespace verbatim::audit
