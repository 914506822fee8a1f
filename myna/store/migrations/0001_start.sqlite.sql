-- Times are Unix milliseconds; 0 stands for "never".

CREATE TABLE site (version INTEGER NOT NULL) STRICT;
INSERT INTO site VALUES (1);

CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE channels (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('chat', 'speech')),
    name TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    model TEXT NOT NULL,
    key_env TEXT NOT NULL,
    priority INTEGER NOT NULL,
    enabled INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- What a speech channel said it can speak, in its own order.
CREATE TABLE channel_voices (
    channel TEXT NOT NULL,
    position INTEGER NOT NULL,
    voice_id TEXT NOT NULL,
    name TEXT NOT NULL,
    gender TEXT NOT NULL,
    language TEXT NOT NULL,
    PRIMARY KEY (channel, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL,
    operator INTEGER NOT NULL,
    disabled_at INTEGER NOT NULL DEFAULT 0,
    balance INTEGER NOT NULL DEFAULT 0 CHECK (balance >= 0),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    masked TEXT NOT NULL,
    scopes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    ok_calls INTEGER NOT NULL DEFAULT 0,
    cost INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX keys_of_account ON keys (account_id, id);

CREATE TABLE calls (
    id BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    pays INTEGER NOT NULL,
    units INTEGER NOT NULL CHECK (units >= 0),
    state INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
    created_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    ended_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_open ON calls (deadline) WHERE state = 0;

-- Append-only. A grant has an id of its own where a charge and a refund have their call's.
CREATE TABLE ledger (
    call_id BLOB NOT NULL,
    kind INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
    account_id INTEGER NOT NULL,
    units INTEGER NOT NULL,
    memo TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    PRIMARY KEY (call_id, kind)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_keeps_all_entries BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id INTEGER NOT NULL,
    call_id BLOB NOT NULL UNIQUE,
    status INTEGER NOT NULL CHECK (status IN (0, 1, 2, 3)),
    voice_id TEXT NOT NULL,
    speed REAL NOT NULL,
    text TEXT NOT NULL,
    chars INTEGER NOT NULL,
    audio TEXT NOT NULL DEFAULT '',
    audio_bytes INTEGER NOT NULL DEFAULT 0,
    audio_sha256 BLOB NOT NULL DEFAULT x'',
    audio_removed_at INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tasks_of_account ON tasks (account_id, id);
CREATE INDEX tasks_with_audio ON tasks (ended_at) WHERE audio <> '' AND audio_removed_at = 0;
CREATE TRIGGER tasks_end_once BEFORE UPDATE OF status ON tasks WHEN old.status IN (2, 3)
BEGIN SELECT RAISE(ABORT, 'a task that ended does not move'); END;

-- `answer` is NULL while the first call is open.
CREATE TABLE reservations (
    account_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    call_id BLOB NOT NULL UNIQUE,
    answer TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, key)
) STRICT;
CREATE INDEX reservations_by_age ON reservations (created_at);
