-- 0004: time stamps can be found without reading every leaf.
CREATE INDEX leaf_timestamp ON leaf (type, idx)
WHERE type = 'timestamp';
