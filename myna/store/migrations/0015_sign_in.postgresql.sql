-- How account holders sign in to the back office. Passwords are argon2id hashes; tokens of sessions and links,
-- and recovery codes, are stored as SHA-256.
CREATE TABLE passwords (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    hash text NOT NULL,
    set_at bigint NOT NULL
);

-- A pending session waits for the second factor. `verified_at` is when the password was last entered.
CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token_hash bytea NOT NULL UNIQUE,
    account_id bigint NOT NULL REFERENCES accounts (id),
    pending bigint NOT NULL CHECK (pending BETWEEN 0 AND 1),
    second_factor bigint NOT NULL DEFAULT 0 CHECK (second_factor BETWEEN 0 AND 1),
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    verified_at bigint NOT NULL,
    address text NOT NULL,
    user_agent text NOT NULL
);
CREATE INDEX sessions_of_account ON sessions (account_id, id);

-- One-time links; one for each account and purpose. The first operator's has account 0.
CREATE TABLE links (
    token_hash bytea PRIMARY KEY,
    purpose text NOT NULL CHECK (purpose IN ('first', 'invite', 'reset')),
    account_id bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    UNIQUE (purpose, account_id)
);

-- A second factor is used from its confirmation on. `last_step` is the time step of the last accepted code.
CREATE TABLE second_factors (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    secret text NOT NULL,
    confirmed_at bigint NOT NULL DEFAULT 0,
    last_step bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL
);

CREATE TABLE recovery_codes (
    code_hash bytea PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES accounts (id)
);
CREATE INDEX recovery_codes_of_account ON recovery_codes (account_id);

-- Failed attempts in a row. `subject` is a SHA-256, since a person may type a password instead of a name.
CREATE TABLE sign_in_failures (
    subject bytea PRIMARY KEY,
    failures bigint NOT NULL,
    blocked_until bigint NOT NULL,
    failed_at bigint NOT NULL
);
CREATE INDEX sign_in_failures_by_age ON sign_in_failures (failed_at);

-- An account without a row has the defaults: the browser's language, and no warning of a low balance.
CREATE TABLE preferences (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    language text NOT NULL CHECK (language IN ('', 'zh', 'en')),
    low_balance bigint NOT NULL CHECK (low_balance >= 0)
);

CREATE INDEX accounts_by_email ON accounts (lower(email)) WHERE email <> '';
