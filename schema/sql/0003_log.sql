-- 0003: which keys the log has had can be found without reading every leaf.
CREATE INDEX leaf_keys ON leaf (type, idx)
WHERE type IN ('key_rotated', 'key_retired');
