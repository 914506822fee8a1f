-- Serves builds of schema 31 and later.
-- The key that was entered for a channel: encrypted with MYNA_SECRET_KEY, or `file` if it is in a file of a machine.
ALTER TABLE channels ADD COLUMN stored_key text NOT NULL DEFAULT '';
