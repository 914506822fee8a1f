-- Reports. A batch counts each call that ends in `usage_hours`, exactly, and writes one row to `outbox` with its
-- ledger entries and ends. A job folds these rows into `entries`, `usage_days` and `site_hours`: an index on the
-- ledger by account would cost every call twice the log. See docs/decisions.
--
-- An hour begins at the minutes of the reporting zone, in Unix ms; `hour_offset_ms` is the zone's offset from UTC
-- modulo an hour. A day is the number of days since 1970-01-01 in the reporting zone. `kind` of usage is the scope
-- that paid. A call counts when it ended, an entry when it was entered.
ALTER TABLE site ADD COLUMN hour_offset_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE key_usage ADD COLUMN last_used_at bigint NOT NULL DEFAULT 0;

CREATE TABLE usage_hours (
    account_id bigint NOT NULL,
    hour bigint NOT NULL,
    key_id bigint NOT NULL,
    kind bigint NOT NULL,
    calls bigint NOT NULL,
    ok_calls bigint NOT NULL,
    units bigint NOT NULL,
    ms bigint NOT NULL,
    PRIMARY KEY (account_id, hour, key_id, kind)
) WITH (fillfactor = 50);
CREATE TABLE usage_days (
    account_id bigint NOT NULL,
    day bigint NOT NULL,
    key_id bigint NOT NULL,
    kind bigint NOT NULL,
    calls bigint NOT NULL,
    ok_calls bigint NOT NULL,
    units bigint NOT NULL,
    ms bigint NOT NULL,
    PRIMARY KEY (account_id, day, key_id, kind)
);
-- Days whose hours have changed since `usage_days` was written.
CREATE TABLE stale_days (
    day bigint NOT NULL,
    account_id bigint NOT NULL,
    PRIMARY KEY (day, account_id)
);
-- `bucket` is the number of binary digits of a call's milliseconds: 0 for 0 ms, n for 2^(n-1) to 2^n - 1 ms.
CREATE TABLE site_hours (
    hour bigint NOT NULL,
    channel text NOT NULL,
    kind bigint NOT NULL,
    bucket bigint NOT NULL,
    calls bigint NOT NULL,
    ok_calls bigint NOT NULL,
    units bigint NOT NULL,
    PRIMARY KEY (hour, channel, kind, bucket)
);

-- `entries` is a JSON array of [call id in hexadecimal, kind, account, key, units]; `ends` of [account, hour, kind,
-- 1 if kept, units kept, ms, channel]. `size` is how many both have.
CREATE TABLE outbox (
    id bytea PRIMARY KEY,
    at bigint NOT NULL,
    size bigint NOT NULL,
    entries text NOT NULL,
    ends text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- The ledger by account. `number` to `redeemed` are sums of the account's entries up to this one.
CREATE TABLE entries (
    account_id bigint NOT NULL,
    at bigint NOT NULL,
    call_id bytea NOT NULL,
    kind bigint NOT NULL,
    key_id bigint NOT NULL,
    units bigint NOT NULL,
    number bigint NOT NULL,
    balance bigint NOT NULL,
    charged bigint NOT NULL,
    refunded bigint NOT NULL,
    redeemed bigint NOT NULL,
    PRIMARY KEY (account_id, at, call_id, kind)
);
CREATE INDEX entries_not_charges ON entries (account_id, kind, at, call_id) WHERE kind <> 0;

-- Calls that ended and entries that were made before `counted_since` are folded from `calls` and `ledger`, up to
-- `filled_until`; the later ones were counted by their batches. `zone` is the time zone of `usage_days`, which are
-- rebuilt for the accounts above `rebuilt_until`.
CREATE TABLE rollup_state (
    counted_since bigint NOT NULL,
    filled bigint NOT NULL,
    filled_until bytea NOT NULL DEFAULT '',
    zone text NOT NULL DEFAULT 'UTC',
    rebuilt_until bigint NOT NULL DEFAULT 9223372036854775807
);
INSERT INTO rollup_state (counted_since, filled)
VALUES (now_ms(), CASE WHEN EXISTS (SELECT 1 FROM ledger) THEN 0 ELSE 1 END);

-- A code that is redeemed has an entry of kind 3.
ALTER TABLE ledger DROP CONSTRAINT ledger_kind_check;
ALTER TABLE ledger ADD CONSTRAINT ledger_kind_check CHECK (kind BETWEEN 0 AND 3) NOT VALID;
