-- An internal key has a random hash and no plain key: only the site charges calls to it. An account has at most one.
ALTER TABLE keys ADD COLUMN internal INTEGER NOT NULL DEFAULT 0 CHECK (internal IN (0, 1));
CREATE UNIQUE INDEX internal_keys ON keys (account_id) WHERE internal = 1;
