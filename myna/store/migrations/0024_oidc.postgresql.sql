-- Who an account is at the provider of sign-ins by OpenID Connect. A subject never names two accounts.
CREATE TABLE oidc_identities (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    issuer text NOT NULL,
    subject text NOT NULL,
    linked_at bigint NOT NULL,
    UNIQUE (issuer, subject)
);

-- Sign-ins under way at the provider. A row is used once, by the browser that began, for ten minutes. `session_id`
-- is that of the person who links or confirms, 0 for a sign-in; `network` is the client's.
CREATE TABLE oidc_attempts (
    state_hash bytea PRIMARY KEY,
    browser_hash bytea NOT NULL,
    nonce text NOT NULL,
    verifier text NOT NULL,
    purpose text NOT NULL CHECK (purpose IN ('sign-in', 'link', 'confirm')),
    session_id bigint NOT NULL,
    target text NOT NULL,
    network text NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX oidc_attempts_of_network ON oidc_attempts (network, created_at);
CREATE INDEX oidc_attempts_by_age ON oidc_attempts (created_at);
