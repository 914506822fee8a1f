-- The audit's checkpoint: calls and ledger entries with ids below `closed_until` were checked, are final, and are
-- summed up for each account and key. `site.closed_before` is the fence: no new id is below it.
ALTER TABLE site ADD COLUMN closed_before BLOB NOT NULL DEFAULT x'';
CREATE TABLE audit_state (
    closed_until BLOB NOT NULL DEFAULT x'',
    calls INTEGER NOT NULL DEFAULT 0,
    entries INTEGER NOT NULL DEFAULT 0,
    tasks INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 0,
    claimed_until INTEGER NOT NULL DEFAULT 0,
    audited_at INTEGER NOT NULL DEFAULT 0,
    breaches INTEGER NOT NULL DEFAULT 0,
    counted TEXT NOT NULL DEFAULT '{}'
) STRICT;
INSERT INTO audit_state DEFAULT VALUES;
CREATE TABLE audit_accounts (account_id INTEGER PRIMARY KEY, units INTEGER NOT NULL) STRICT;
CREATE TABLE audit_keys (
    key_id INTEGER PRIMARY KEY,
    calls INTEGER NOT NULL,
    ok_calls INTEGER NOT NULL,
    cost INTEGER NOT NULL
) STRICT;
