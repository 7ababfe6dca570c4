-- 0006: what is seldom can be found without reading what is common: a model, a tenant beside the default one, exchanges
-- that did not end well or came from the cache, and leaves that are neither request nor response. The common cases
-- (`complete`, the default tenant) have no entry: the log's newest leaves answer for them, and each entry costs.
CREATE INDEX leaf_model ON leaf (model, time_us)
WHERE type = 'request';
CREATE INDEX leaf_tenant ON leaf (tenant, time_us)
WHERE type = 'request' AND tenant <> 'default';
CREATE INDEX leaf_status ON leaf (status, time_us)
WHERE type = 'response' AND status <> 'complete';
CREATE INDEX leaf_other ON leaf (type, time_us)
WHERE type NOT IN ('request', 'response');
