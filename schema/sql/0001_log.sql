-- 0001: the log (log.db). Applied once, inside one transaction, by audit/store.cpp.
-- A released migration is never edited; a change is the next number.
--
-- The triggers guard against mistakes, not against somebody who holds the file: that is what the tree is for.
-- INSERT OR REPLACE deletes without firing DELETE triggers, hence the guards before each insert.
--
-- RAISE(FAIL), and no function in a CHECK of a table that has triggers: either would have SQLite keep a savepoint for
-- each row, with a copy of every page that the row touches, at four times the cost of the row itself.

-- The leaves. `bytes` is the evidence (schema/leaf.md); the other columns repeat a part of it so that it can be
-- looked up, and `verbatim verify` checks that the copies agree. `bytes` is last: a scan of the rest skips it.
CREATE TABLE leaf (
  idx     INTEGER PRIMARY KEY CHECK (idx >= 0),            -- 0, 1, 2, ...: no gaps
  id      BLOB    NOT NULL,                                -- UUIDv7 of the record, 16 bytes
  type    TEXT    NOT NULL,                                -- "request", "response", ...
  time_us INTEGER NOT NULL,                                -- Unix time, UTC, microseconds
  status  TEXT,                                            -- response: how the exchange ended
  model   TEXT,                                            -- request: the model asked for; model: its name
  route   TEXT,                                            -- request: the API, "openai.chat"
  cache   TEXT,                                            -- response: "hit", "miss", "bypass"
  tenant  TEXT,                                            -- request
  -- The Merkle subtrees that this leaf completes, 32 bytes each: its own hash, then level 1, 2, ...
  -- (one more for each trailing 1 bit of idx). Subtree n of level l is in the row of leaf (n + 1) * 2^l - 1.
  hashes  BLOB    NOT NULL,
  bytes   BLOB    NOT NULL                                 -- 2 to 65,535 bytes
) STRICT;
CREATE INDEX leaf_id ON leaf (id);
CREATE INDEX leaf_time ON leaf (time_us);

-- One signed tree head for each commit, written in the same transaction as its leaves.
CREATE TABLE checkpoint (
  size      INTEGER PRIMARY KEY CHECK (size >= 0),         -- leaves in the tree
  root      BLOB    NOT NULL,                              -- as in the note, 32 bytes
  open_from INTEGER NOT NULL CHECK (open_from <= size),    -- oldest request without response; `size` if none
  note      TEXT    NOT NULL                               -- C2SP tlog-checkpoint in a signed note
) STRICT;

-- What leaves commit to, compressed and encrypted (audit/content.hpp). Erasing sets both BLOBs to NULL.
CREATE TABLE content (
  id     INTEGER PRIMARY KEY,                              -- leaf index * 16 + place in the leaf's `contents`
  kek    INTEGER NOT NULL,                                 -- keys.db: kek.id, the key that wraps `dek`
  codec  INTEGER NOT NULL CHECK (codec IN (0, 1)),         -- 0 as is, 1 zstd
  dek    BLOB,                                             -- the record's key, wrapped: 60 bytes
  sealed BLOB,                                             -- nonce, ciphertext of salt and payload, tag
  CHECK ((dek IS NULL) = (sealed IS NULL))
) STRICT;

-- The cache: which record answers a key. Derived from the leaves' `canonical` members.
CREATE TABLE canonical_output (
  key        BLOB    PRIMARY KEY CHECK (length(key) = 32), -- keyed hash of what identifies the output
  leaf       INTEGER NOT NULL,                             -- the leaf that says so
  expires_us INTEGER NOT NULL                              -- Unix time; 0: never
) STRICT, WITHOUT ROWID;

CREATE TRIGGER leaf_in_order BEFORE INSERT ON leaf
WHEN NEW.idx IS NOT (SELECT coalesce(max(idx) + 1, 0) FROM leaf)
BEGIN SELECT RAISE(FAIL, 'leaves are appended in order'); END;
CREATE TRIGGER leaf_no_update BEFORE UPDATE ON leaf
BEGIN SELECT RAISE(FAIL, 'leaves are append-only'); END;
CREATE TRIGGER leaf_no_delete BEFORE DELETE ON leaf
BEGIN SELECT RAISE(FAIL, 'leaves are append-only'); END;

CREATE TRIGGER checkpoint_in_order BEFORE INSERT ON checkpoint
WHEN NEW.size <= (SELECT coalesce(max(size), -1) FROM checkpoint)
BEGIN SELECT RAISE(FAIL, 'checkpoints only grow'); END;
CREATE TRIGGER checkpoint_no_update BEFORE UPDATE ON checkpoint
BEGIN SELECT RAISE(FAIL, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint
BEGIN SELECT RAISE(FAIL, 'checkpoints are append-only'); END;

CREATE TRIGGER content_in_order BEFORE INSERT ON content
WHEN NEW.id <= (SELECT coalesce(max(id), -1) FROM content)
BEGIN SELECT RAISE(FAIL, 'contents are appended in order'); END;
CREATE TRIGGER content_only_erased BEFORE UPDATE ON content
WHEN NEW.id IS NOT OLD.id OR NEW.kek IS NOT OLD.kek OR NEW.codec IS NOT OLD.codec
  OR NEW.dek IS NOT NULL OR NEW.sealed IS NOT NULL
BEGIN SELECT RAISE(FAIL, 'contents can only be erased'); END;
CREATE TRIGGER content_no_delete BEFORE DELETE ON content
BEGIN SELECT RAISE(FAIL, 'contents can only be erased'); END;
