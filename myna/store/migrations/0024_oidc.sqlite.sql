-- Who an account is at the provider of sign-ins by OpenID Connect. A subject never names two accounts.
CREATE TABLE oidc_identities (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    linked_at INTEGER NOT NULL,
    UNIQUE (issuer, subject)
) STRICT;

-- Sign-ins under way at the provider. A row is used once, by the browser that began, for ten minutes. `session_id`
-- is that of the person who links or confirms, 0 for a sign-in; `network` is the client's.
CREATE TABLE oidc_attempts (
    state_hash BLOB PRIMARY KEY,
    browser_hash BLOB NOT NULL,
    nonce TEXT NOT NULL,
    verifier TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('sign-in', 'link', 'confirm')),
    session_id INTEGER NOT NULL,
    target TEXT NOT NULL,
    network TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX oidc_attempts_of_network ON oidc_attempts (network, created_at);
CREATE INDEX oidc_attempts_by_age ON oidc_attempts (created_at);
