-- Codes that are redeemed for units. `units`, `uses` and `codes` are those of each code and of the whole batch.
CREATE TABLE code_batches (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    units INTEGER NOT NULL CHECK (units > 0),
    uses INTEGER NOT NULL CHECK (uses > 0),
    codes INTEGER NOT NULL CHECK (codes > 0),
    memo TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    disabled_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A code is stored as SHA-256 only.
CREATE TABLE codes (
    hash BLOB PRIMARY KEY,
    batch_id INTEGER NOT NULL REFERENCES code_batches (id),
    uses_left INTEGER NOT NULL CHECK (uses_left >= 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX codes_of_batch ON codes (batch_id);

CREATE TABLE redemptions (
    code_hash BLOB NOT NULL REFERENCES codes (hash),
    account_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (code_hash, account_id)
) STRICT, WITHOUT ROWID;

-- A leaky bucket of an account's unknown codes: `until` is when it is empty.
CREATE TABLE code_guesses (
    account_id INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;
