-- 0002: what was erased and what is held can be found without reading every leaf.
CREATE INDEX leaf_governance ON leaf (type, idx)
WHERE type IN ('erasure', 'legal_hold', 'legal_hold_released');
