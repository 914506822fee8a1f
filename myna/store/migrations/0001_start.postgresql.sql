-- Times are Unix milliseconds; 0 stands for "never".

-- Not inlined on purpose: a test moves the clock by replacing it.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint; END $$;

CREATE TABLE site (version bigint NOT NULL);
INSERT INTO site VALUES (1);

CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE channels (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('chat', 'speech')),
    name text NOT NULL UNIQUE,
    url text NOT NULL,
    model text NOT NULL,
    key_env text NOT NULL,
    priority bigint NOT NULL,
    enabled bigint NOT NULL,
    created_at bigint NOT NULL
);

-- What a speech channel said it can speak, in its own order.
CREATE TABLE channel_voices (
    channel text NOT NULL,
    position bigint NOT NULL,
    voice_id text NOT NULL,
    name text NOT NULL,
    gender text NOT NULL,
    language text NOT NULL,
    PRIMARY KEY (channel, position)
);

-- Rows that every call changes leave room on their page, so that a change touches no index.
CREATE TABLE accounts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    email text NOT NULL,
    operator bigint NOT NULL,
    disabled_at bigint NOT NULL DEFAULT 0,
    balance bigint NOT NULL DEFAULT 0 CHECK (balance >= 0),
    created_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES accounts (id),
    name text NOT NULL,
    hash bytea NOT NULL UNIQUE,
    masked text NOT NULL,
    scopes bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint NOT NULL DEFAULT 0,
    calls bigint NOT NULL DEFAULT 0,
    ok_calls bigint NOT NULL DEFAULT 0,
    cost bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX keys_of_account ON keys (account_id, id);

CREATE TABLE calls (
    id bytea PRIMARY KEY,
    account_id bigint NOT NULL,
    key_id bigint NOT NULL,
    pays bigint NOT NULL,
    units bigint NOT NULL CHECK (units >= 0),
    state bigint NOT NULL CHECK (state IN (0, 1, 2)),
    created_at bigint NOT NULL,
    deadline bigint NOT NULL,
    ended_at bigint NOT NULL DEFAULT 0
);
CREATE INDEX calls_open ON calls (deadline) WHERE state = 0;

-- Append-only. A grant has an id of its own where a charge and a refund have their call's.
CREATE TABLE ledger (
    call_id bytea NOT NULL,
    kind bigint NOT NULL CHECK (kind IN (0, 1, 2)),
    account_id bigint NOT NULL,
    units bigint NOT NULL,
    memo text NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    PRIMARY KEY (call_id, kind)
);
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;
CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE OR DELETE ON ledger
FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_keeps_all_entries BEFORE TRUNCATE ON ledger
FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

CREATE TABLE tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id bigint NOT NULL,
    call_id bytea NOT NULL UNIQUE,
    status bigint NOT NULL CHECK (status IN (0, 1, 2, 3)),
    voice_id text NOT NULL,
    speed double precision NOT NULL,
    text text NOT NULL,
    chars bigint NOT NULL,
    audio text NOT NULL DEFAULT '',
    audio_bytes bigint NOT NULL DEFAULT 0,
    audio_sha256 bytea NOT NULL DEFAULT '',
    audio_removed_at bigint NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    ended_at bigint NOT NULL DEFAULT 0
);
CREATE INDEX tasks_of_account ON tasks (account_id, id);
CREATE INDEX tasks_with_audio ON tasks (ended_at) WHERE audio <> '' AND audio_removed_at = 0;
CREATE FUNCTION task_has_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a task that ended does not move'; END $$;
CREATE TRIGGER tasks_end_once BEFORE UPDATE OF status ON tasks
FOR EACH ROW WHEN (old.status IN (2, 3)) EXECUTE FUNCTION task_has_ended();

-- `answer` is NULL while the first call is open.
CREATE TABLE reservations (
    account_id bigint NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    call_id bytea NOT NULL UNIQUE,
    answer text,
    created_at bigint NOT NULL,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX reservations_by_age ON reservations (created_at);
