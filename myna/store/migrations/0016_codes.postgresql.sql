-- Codes that are redeemed for units. `units`, `uses` and `codes` are those of each code and of the whole batch.
CREATE TABLE code_batches (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    units bigint NOT NULL CHECK (units > 0),
    uses bigint NOT NULL CHECK (uses > 0),
    codes bigint NOT NULL CHECK (codes > 0),
    memo text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    disabled_at bigint NOT NULL DEFAULT 0
);

-- A code is stored as SHA-256 only.
CREATE TABLE codes (
    hash bytea PRIMARY KEY,
    batch_id bigint NOT NULL REFERENCES code_batches (id),
    uses_left bigint NOT NULL CHECK (uses_left >= 0)
);
CREATE INDEX codes_of_batch ON codes (batch_id);

CREATE TABLE redemptions (
    code_hash bytea NOT NULL REFERENCES codes (hash),
    account_id bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (code_hash, account_id)
);

-- A leaky bucket of an account's unknown codes: `until` is when it is empty.
CREATE TABLE code_guesses (
    account_id bigint PRIMARY KEY,
    until bigint NOT NULL
);
