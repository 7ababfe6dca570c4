#pragma once
// A witness (C2SP tlog-witness v1.0.0): cosigns checkpoints of logs that it knows, each only if it goes on from the last.
//
//   POST add-checkpoint     old <size>\n, 0 to 63 hashes in base64, one a line, an empty line, the checkpoint
//   GET <hex SHA-256 of the origin>/checkpoint        the last that was cosigned
//
// HTTP is somebody else's (gateway/witness_server.hpp): this is what the bodies mean.

#include "audit/database.hpp"
#include "audit/merkle.hpp"
#include "audit/note.hpp"
#include "schema/clock.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

/// What a client asks for.
struct WitnessRequest {
  std::uint64_t old_size = 0;
  std::vector<Digest> proof;  ///< consistency, from old_size to the checkpoint
  std::string checkpoint;     ///< a signed note
};
[[nodiscard]] std::string format_witness_request(const WitnessRequest& request);
/// `invalid_input` on anything but the exact form.
[[nodiscard]] Result<WitnessRequest> parse_witness_request(std::string_view body);

struct WitnessAnswer {
  int status = 0;
  std::string type;  ///< media type
  std::string body;
};

/// Keeps its state in a folder: `witness.key` (mode 0600) and `witness.db`. Thread-safe.
class Witness {
 public:
  /// Makes key and state if there are none, with this name; later it must be the same. `logs`: keys of the logs it
  /// serves; several of one origin are one log's. `clock` must outlive it. `invalid_input` (no log, a bad name, another
  /// name than the key's), `tampered` (a damaged key or state, or a key whose state is gone), `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<Witness>> open(const std::filesystem::path& folder,
                                                             const std::string& name,
                                                             std::vector<VerifierKey> logs,
                                                             const Clock& clock);

  /// For people who trust it: a key of type 0x04.
  [[nodiscard]] VerifierKey key() const;

  /// 200: the cosignature's line, and the state is durable: the checkpoint with the log's signatures and ours, no others.
  /// 400 (malformed, or old beyond the checkpoint), 403 (no signature of a known key, or a wrong one), 404 (unknown
  /// origin), 409 (old is not the last size cosigned: the body is that size, type text/x.tlog.size), 422 (the proof does
  /// not lead from the last tree to this one), 500.
  [[nodiscard]] WitnessAnswer add_checkpoint(std::string_view body);
  /// `path`: what follows the monitoring prefix. 200 or 404.
  [[nodiscard]] WitnessAnswer read(std::string_view path);

 private:
  struct Last {
    std::uint64_t size = 0;
    Digest root = empty_root();
  };
  Witness(NoteSigningKey key, std::vector<VerifierKey> logs, Database db, const Clock& clock);
  [[nodiscard]] std::vector<VerifierKey> keys_of(std::string_view origin) const;
  Result<Last> last_of(const std::string& origin);

  NoteSigningKey key_;
  std::vector<VerifierKey> logs_;
  const Clock& clock_;
  std::mutex mutex_;  // one request at a time, from the check to the commit
  Database db_;
  Statement select_{db_, "SELECT size, root, note FROM log WHERE origin = ?1"};
  Statement insert_{db_, "INSERT INTO log (origin, size, root, note) VALUES (?1, ?2, ?3, ?4)"};
  // The state must still be the one that was checked, whoever else writes the file.
  Statement update_{db_, R"(
      UPDATE log SET size = ?2, root = ?3, note = ?4 WHERE origin = ?1 AND size = ?5 AND root = ?6)"};
};

}  // namespace verbatim::audit
