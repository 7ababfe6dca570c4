-- 0001: the keys (keys.db), apart from the log so that a backup of the log cannot bring erased contents back.
-- Every key here is wrapped under the master key (master.key). Written before the log that needs it.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,                                  -- "keys_id"
  value TEXT NOT NULL
) STRICT;

-- Keys that wrap records' keys, one for each subject; "" is the log's own.
CREATE TABLE kek (
  id      INTEGER PRIMARY KEY,                             -- named by log.db: content.kek
  subject TEXT    NOT NULL,                                -- keyed hash of a person or credential, or ""
  wrapped BLOB CHECK (length(wrapped) = 60)                -- NULL once erased, for ever
) STRICT;
CREATE UNIQUE INDEX kek_subject ON kek (subject) WHERE wrapped IS NOT NULL;

-- Secrets of keyed hashes: "subject", and "cache/" with a tenant's name.
CREATE TABLE secret (
  name    TEXT PRIMARY KEY,
  wrapped BLOB NOT NULL CHECK (length(wrapped) = 60)
) STRICT;
