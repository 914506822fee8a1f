-- The audit's checkpoint: calls and ledger entries with ids below `closed_until` were checked, are final, and are
-- summed up for each account and key. `site.closed_before` is the fence: no new id is below it.
ALTER TABLE site ADD COLUMN closed_before bytea NOT NULL DEFAULT '';
CREATE TABLE audit_state (
    closed_until bytea NOT NULL DEFAULT '',
    calls bigint NOT NULL DEFAULT 0,
    entries bigint NOT NULL DEFAULT 0,
    tasks bigint NOT NULL DEFAULT 0,
    files bigint NOT NULL DEFAULT 0,
    claimed_until bigint NOT NULL DEFAULT 0,
    audited_at bigint NOT NULL DEFAULT 0,
    breaches bigint NOT NULL DEFAULT 0,
    counted text NOT NULL DEFAULT '{}'
);
INSERT INTO audit_state DEFAULT VALUES;
CREATE TABLE audit_accounts (account_id bigint PRIMARY KEY, units bigint NOT NULL);
CREATE TABLE audit_keys (
    key_id bigint PRIMARY KEY,
    calls bigint NOT NULL,
    ok_calls bigint NOT NULL,
    cost bigint NOT NULL
);
