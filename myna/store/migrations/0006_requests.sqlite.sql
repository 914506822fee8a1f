-- The HTTP request that was charged, and the channel that answered it.
ALTER TABLE calls ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN channel TEXT NOT NULL DEFAULT '';
