-- Reports. A batch counts each call that ends in `usage_hours`, exactly, and writes one row to `outbox` with its
-- ledger entries and ends. A job folds these rows into `entries`, `usage_days` and `site_hours`: an index on the
-- ledger by account would cost every call twice the log. See docs/decisions.
--
-- An hour begins at the minutes of the reporting zone, in Unix ms; `hour_offset_ms` is the zone's offset from UTC
-- modulo an hour. A day is the number of days since 1970-01-01 in the reporting zone. `kind` of usage is the scope
-- that paid. A call counts when it ended, an entry when it was entered.
ALTER TABLE site ADD COLUMN hour_offset_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE key_usage ADD COLUMN last_used_at INTEGER NOT NULL DEFAULT 0;

CREATE TABLE usage_hours (
    account_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    ok_calls INTEGER NOT NULL,
    units INTEGER NOT NULL,
    ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, hour, key_id, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_days (
    account_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    ok_calls INTEGER NOT NULL,
    units INTEGER NOT NULL,
    ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, key_id, kind)
) STRICT, WITHOUT ROWID;
-- Days whose hours have changed since `usage_days` was written.
CREATE TABLE stale_days (
    day INTEGER NOT NULL,
    account_id INTEGER NOT NULL,
    PRIMARY KEY (day, account_id)
) STRICT, WITHOUT ROWID;
-- `bucket` is the number of binary digits of a call's milliseconds: 0 for 0 ms, n for 2^(n-1) to 2^n - 1 ms.
CREATE TABLE site_hours (
    hour INTEGER NOT NULL,
    channel TEXT NOT NULL,
    kind INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    ok_calls INTEGER NOT NULL,
    units INTEGER NOT NULL,
    PRIMARY KEY (hour, channel, kind, bucket)
) STRICT, WITHOUT ROWID;

-- `entries` is a JSON array of [call id in hexadecimal, kind, account, key, units]; `ends` of [account, hour, kind,
-- 1 if kept, units kept, ms, channel]. `size` is how many both have.
CREATE TABLE outbox (
    id BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    entries TEXT NOT NULL,
    ends TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- The ledger by account. `number` to `redeemed` are sums of the account's entries up to this one.
CREATE TABLE entries (
    account_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    call_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    units INTEGER NOT NULL,
    number INTEGER NOT NULL,
    balance INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    refunded INTEGER NOT NULL,
    redeemed INTEGER NOT NULL,
    PRIMARY KEY (account_id, at, call_id, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_not_charges ON entries (account_id, kind, at, call_id) WHERE kind <> 0;

-- Calls that ended and entries that were made before `counted_since` are folded from `calls` and `ledger`, up to
-- `filled_until`; the later ones were counted by their batches. `zone` is the time zone of `usage_days`, which are
-- rebuilt for the accounts above `rebuilt_until`.
CREATE TABLE rollup_state (
    counted_since INTEGER NOT NULL,
    filled INTEGER NOT NULL,
    filled_until BLOB NOT NULL DEFAULT x'',
    zone TEXT NOT NULL DEFAULT 'UTC',
    rebuilt_until INTEGER NOT NULL DEFAULT 9223372036854775807
) STRICT;
INSERT INTO rollup_state (counted_since, filled)
VALUES (now_ms(), CASE WHEN EXISTS (SELECT 1 FROM ledger) THEN 0 ELSE 1 END);

-- A code that is redeemed has an entry of kind 3. ALTER TABLE can't change a check: see 0004.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (kind BETWEEN 0 AND 2)', 'CHECK (kind BETWEEN 0 AND 3)')
WHERE type = 'table' AND name = 'ledger';
PRAGMA writable_schema = RESET;
CREATE TABLE found (spans INTEGER CONSTRAINT a_check_of_this_schema_was_changed_by_hand CHECK (spans = 1)) STRICT;
INSERT INTO found SELECT count(*) FROM sqlite_schema
WHERE type = 'table' AND name = 'ledger' AND sql LIKE '%CHECK (kind BETWEEN 0 AND 3)%';
DROP TABLE found;
