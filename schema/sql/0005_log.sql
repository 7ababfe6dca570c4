-- 0005: pruning. A leaf below the minimum index that a `prune` leaf names loses its bytes and what was copied from them; its
-- index, id, time and hashes stay. `type` is 'pruned' then, and `bytes` is empty.
CREATE INDEX leaf_prune ON leaf (type, idx)
WHERE type = 'prune';
CREATE INDEX leaf_retention ON leaf (type, idx)
WHERE type = 'retention_override';

DROP TRIGGER leaf_no_update;
CREATE TRIGGER leaf_only_pruned BEFORE UPDATE ON leaf
WHEN NEW.idx IS NOT OLD.idx OR NEW.id IS NOT OLD.id OR NEW.time_us IS NOT OLD.time_us
  OR NEW.hashes IS NOT OLD.hashes OR NEW.type IS NOT 'pruned' OR length(NEW.bytes) IS NOT 0
  OR NEW.status IS NOT NULL OR NEW.model IS NOT NULL OR NEW.route IS NOT NULL
  OR NEW.cache IS NOT NULL OR NEW.tenant IS NOT NULL
  OR NOT EXISTS (SELECT 1 FROM leaf WHERE type = 'prune' AND idx > OLD.idx)
BEGIN SELECT RAISE(FAIL, 'leaves are append-only, and can only be pruned'); END;
