-- The HTTP request that was charged, and the channel that answered it.
ALTER TABLE calls ADD COLUMN request_id text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN channel text NOT NULL DEFAULT '';
