-- How account holders sign in to the back office. Passwords are argon2id hashes; tokens of sessions and links,
-- and recovery codes, are stored as SHA-256.
CREATE TABLE passwords (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    hash TEXT NOT NULL,
    set_at INTEGER NOT NULL
) STRICT;

-- A pending session waits for the second factor. `verified_at` is when the password was last entered.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    pending INTEGER NOT NULL CHECK (pending BETWEEN 0 AND 1),
    second_factor INTEGER NOT NULL DEFAULT 0 CHECK (second_factor BETWEEN 0 AND 1),
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    verified_at INTEGER NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_of_account ON sessions (account_id, id);

-- One-time links; one for each account and purpose. The first operator's has account 0.
CREATE TABLE links (
    token_hash BLOB PRIMARY KEY,
    purpose TEXT NOT NULL CHECK (purpose IN ('first', 'invite', 'reset')),
    account_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (purpose, account_id)
) STRICT;

-- A second factor is used from its confirmation on. `last_step` is the time step of the last accepted code.
CREATE TABLE second_factors (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    secret TEXT NOT NULL,
    confirmed_at INTEGER NOT NULL DEFAULT 0,
    last_step INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE recovery_codes (
    code_hash BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX recovery_codes_of_account ON recovery_codes (account_id);

-- Failed attempts in a row. `subject` is a SHA-256, since a person may type a password instead of a name.
CREATE TABLE sign_in_failures (
    subject BLOB PRIMARY KEY,
    failures INTEGER NOT NULL,
    blocked_until INTEGER NOT NULL,
    failed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_failures_by_age ON sign_in_failures (failed_at);

-- An account without a row has the defaults: the browser's language, and no warning of a low balance.
CREATE TABLE preferences (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    language TEXT NOT NULL CHECK (language IN ('', 'zh', 'en')),
    low_balance INTEGER NOT NULL CHECK (low_balance >= 0)
) STRICT;

CREATE INDEX accounts_by_email ON accounts (lower(email)) WHERE email <> '';
