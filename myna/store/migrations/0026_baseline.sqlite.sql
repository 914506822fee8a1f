-- The schema of 0.26.0, from which every database starts or was upgraded.
-- Times are Unix milliseconds; 0 stands for "never".
--
-- SQLite builds a table of its own for an IN of more than two values, each time that a statement checks it, so the
-- checks of what each call writes say BETWEEN.
CREATE TABLE site (
    version INTEGER NOT NULL,
    -- The fence of the audit's checkpoint: no new id is below it.
    closed_before BLOB NOT NULL DEFAULT x'',
    -- What compute nodes offer has a version of its own, 0 where no node ever offered anything.
    nodes_version INTEGER NOT NULL DEFAULT 0,
    hour_offset_ms INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO site (version) VALUES (1);

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
    created_at INTEGER NOT NULL,
    -- The share of a channel among those of its priority, 0 for the order of their ids; and whether its server offers
    -- POST /responses.
    weight INTEGER NOT NULL DEFAULT 0 CHECK (weight >= 0),
    responses INTEGER NOT NULL DEFAULT 0 CHECK (responses IN (0, 1))
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
    created_at INTEGER NOT NULL,
    limited INTEGER NOT NULL DEFAULT 0 CHECK (limited IN (0, 1))
) STRICT;
CREATE INDEX accounts_by_email ON accounts (lower(email)) WHERE email <> '';

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
    -- 1 while the key has a cap, so that a charge of another key reads no cap.
    capped INTEGER NOT NULL DEFAULT 0,
    -- An internal key has a random hash and no plain key: only the site charges calls to it. An account has at most
    -- one.
    internal INTEGER NOT NULL DEFAULT 0 CHECK (internal IN (0, 1)),
    -- 1 if the key is limited to `key_routes`, so that a charge of another key reads no row there.
    routed INTEGER NOT NULL DEFAULT 0 CHECK (routed IN (0, 1)),
    limited INTEGER NOT NULL DEFAULT 0 CHECK (limited IN (0, 1))
) STRICT;
CREATE INDEX keys_of_account ON keys (account_id, id);
CREATE UNIQUE INDEX internal_keys ON keys (account_id) WHERE internal = 1;

CREATE TABLE calls (
    id BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    pays INTEGER NOT NULL,
    units INTEGER NOT NULL CHECK (units >= 0),
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
    created_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    ended_at INTEGER NOT NULL DEFAULT 0,
    -- The HTTP request that was charged, and the channel that answered it.
    request_id TEXT NOT NULL DEFAULT '',
    channel TEXT NOT NULL DEFAULT '',
    -- The `starts_at` of the period whose cap a call was charged to; 0 without a cap.
    cap_from INTEGER NOT NULL DEFAULT 0,
    -- The route of a call; "" before there were any.
    route TEXT NOT NULL DEFAULT '',
    -- The `day_from` of the days in which a call counts towards the limits of its key and of its account; 0 if it
    -- doesn't.
    key_day INTEGER NOT NULL DEFAULT 0,
    account_day INTEGER NOT NULL DEFAULT 0,
    -- Why a call was refunded, or why its answer is incomplete although it was kept. Empty for a call that was kept
    -- with its complete answer, for an open one, and for calls that ended before 0.26.
    reason TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_open ON calls (deadline, key_id, units) WHERE state = 0;
CREATE INDEX calls_capped ON calls (key_id, cap_from) WHERE cap_from > 0;
CREATE INDEX calls_of_key_day ON calls (key_id, key_day) WHERE key_day > 0;
CREATE INDEX calls_of_account_day ON calls (account_id, account_day) WHERE account_day > 0;

-- Append-only. A grant has an id of its own where a charge and a refund have their call's.
CREATE TABLE ledger (
    call_id BLOB NOT NULL,
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
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
    status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
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
    ended_at INTEGER NOT NULL DEFAULT 0,
    -- A task that a node does. One that the site spoke itself has no deadline of its own and no lease.
    deadline INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    token_hash BLOB NOT NULL DEFAULT x'',
    node_id INTEGER NOT NULL DEFAULT 0,
    leased_at INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    progress INTEGER NOT NULL DEFAULT 0,
    -- Nodes that reported a final failure of a job: `,ID,` for each. They aren't offered it again.
    refused_by TEXT NOT NULL DEFAULT '',
    -- A deleted record has neither text nor audio, and is not listed. Its row stays: it belongs to a call.
    deleted_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tasks_of_account ON tasks (account_id, id);
CREATE INDEX tasks_with_audio ON tasks (ended_at) WHERE audio <> '' AND audio_removed_at = 0;
CREATE INDEX tasks_queued ON tasks (account_id, voice_id, id) WHERE status = 0;
CREATE INDEX voices_queued ON tasks (voice_id) WHERE status = 0;
CREATE INDEX tasks_by_audio ON tasks (audio) WHERE audio <> '';
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE status = 1 AND lease_until > 0;
CREATE INDEX tasks_refused ON tasks (voice_id) WHERE status = 0 AND refused_by <> '';
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
    -- The answer under way where a node does the work: its audio's name is still open.
    draft TEXT,
    PRIMARY KEY (account_id, key)
) STRICT;
CREATE INDEX reservations_by_age ON reservations (created_at);

-- A node is known by its credential once it joined with its token; only hashes are kept. `chars_per_s` is what
-- one of its jobs at a time has shown. Online is who was heard lately. Who failed rests, the longer the more
-- often in a row, so that another one gets the job.
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    token_hash BLOB UNIQUE,
    token_until INTEGER NOT NULL DEFAULT 0,
    credential_hash BLOB UNIQUE,
    disabled_at INTEGER NOT NULL DEFAULT 0,
    draining INTEGER NOT NULL DEFAULT 0,
    slots INTEGER NOT NULL DEFAULT 0,
    chars_per_s REAL NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    rests_until INTEGER NOT NULL DEFAULT 0,
    version TEXT NOT NULL DEFAULT '',
    heard_at INTEGER NOT NULL DEFAULT 0,
    joined_at INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    -- When the node's changes so far are forgotten: it may make so many at once.
    changes_until INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE node_voices (
    node_id INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    voice_id TEXT NOT NULL,
    name TEXT NOT NULL,
    gender TEXT NOT NULL,
    language TEXT NOT NULL,
    PRIMARY KEY (node_id, voice_id)
) STRICT, WITHOUT ROWID;

-- The languages in which a node speaks with a voice it has only heard.
CREATE TABLE node_clones (
    node_id INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    language TEXT NOT NULL,
    PRIMARY KEY (node_id, language)
) STRICT, WITHOUT ROWID;

-- What the operator made of a public voice: another name, a place in the list (0: behind those that have
-- one), or out of sight.
CREATE TABLE voice_marks (
    voice_id TEXT PRIMARY KEY,
    name TEXT NOT NULL DEFAULT '',
    place INTEGER NOT NULL DEFAULT 0,
    hidden INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- A voice that an account made of a sample. `status`: 0 queued, 1 cloning, 2 ready, 3 failed. The columns from
-- `tries` on are the lease, as tasks have it.
CREATE TABLE clones (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    voice_id TEXT NOT NULL UNIQUE,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    language TEXT NOT NULL,
    transcript TEXT NOT NULL,
    sample TEXT NOT NULL,
    sample_bytes INTEGER NOT NULL,
    sample_sha256 BLOB NOT NULL,
    sample_ms INTEGER NOT NULL,
    consent_by TEXT NOT NULL,
    consent_text TEXT NOT NULL,
    consent_at INTEGER NOT NULL,
    status INTEGER NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3)),
    reason TEXT NOT NULL DEFAULT '',
    preview TEXT NOT NULL DEFAULT '',
    preview_bytes INTEGER NOT NULL DEFAULT 0,
    preview_sha256 BLOB NOT NULL DEFAULT x'',
    created_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    token_hash BLOB NOT NULL DEFAULT x'',
    node_id INTEGER NOT NULL DEFAULT 0,
    leased_at INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    progress INTEGER NOT NULL DEFAULT 0,
    refused_by TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX clones_of_account ON clones (account_id, id);
CREATE INDEX clones_by_sample ON clones (sample_sha256);
CREATE INDEX clones_queued ON clones (account_id, id) WHERE status = 0;
CREATE INDEX clones_leased ON clones (lease_until) WHERE status = 1;
CREATE INDEX clones_by_preview ON clones (preview) WHERE preview <> '';
CREATE TRIGGER clones_end_once BEFORE UPDATE OF status ON clones WHEN old.status IN (2, 3)
BEGIN SELECT RAISE(ABORT, 'a clone that ended does not move'); END;

-- Whose turn it is: the number of the lease by which an account was last served.
CREATE TABLE turns (account_id INTEGER PRIMARY KEY, turn INTEGER NOT NULL) STRICT;
CREATE INDEX turns_by_turn ON turns (turn);

-- What each key used is counted once a call, when it ends, in rows so narrow that many share a page: with a
-- million keys every call still writes one page for it. Open calls are counted when somebody asks.
CREATE TABLE key_usage (
    key_id INTEGER PRIMARY KEY,
    calls INTEGER NOT NULL,
    ok_calls INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The audit's checkpoint: calls and ledger entries with ids below `closed_until` were checked, are final, and are
-- summed up for each account and key.
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

-- How the circuit of each channel stood when a serving process last opened or closed it; for the operator.
CREATE TABLE circuits (
    channel     TEXT PRIMARY KEY,
    open_until  INTEGER NOT NULL,  -- 0: closed
    error       TEXT NOT NULL,
    error_at    INTEGER NOT NULL
) STRICT;

-- Who changed what: the command line that makes the same change, with its account or 0. Append-only. The actor
-- is 0 for the command line. Names are stored because accounts can be renamed.
CREATE TABLE activity (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created_at INTEGER NOT NULL,
    actor_id INTEGER NOT NULL,
    actor TEXT NOT NULL,
    address TEXT NOT NULL,
    command TEXT NOT NULL,
    account_id INTEGER NOT NULL
) STRICT;
CREATE INDEX activity_of_account ON activity (account_id, id);
CREATE INDEX activity_by_actor ON activity (actor_id, id);
CREATE TRIGGER activity_keeps_rows BEFORE UPDATE ON activity
BEGIN SELECT RAISE(ABORT, 'the activity is append-only'); END;
CREATE TRIGGER activity_keeps_all_rows BEFORE DELETE ON activity
BEGIN SELECT RAISE(ABORT, 'the activity is append-only'); END;

-- How account holders sign in to the back office. Passwords are argon2id hashes; tokens of sessions and links,
-- and recovery codes, are stored as SHA-256.
CREATE TABLE passwords (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    hash TEXT NOT NULL,
    set_at INTEGER NOT NULL
) STRICT;

-- A pending session waits for the second factor. `verified_at` is when the password was last entered.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    pending INTEGER NOT NULL CHECK (pending BETWEEN 0 AND 1),
    second_factor INTEGER NOT NULL DEFAULT 0 CHECK (second_factor BETWEEN 0 AND 1),
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    verified_at INTEGER NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_of_account ON sessions (account_id, id);

-- One-time links; one for each account and purpose. The first operator's has account 0.
CREATE TABLE links (
    token_hash BLOB PRIMARY KEY,
    purpose TEXT NOT NULL CHECK (purpose IN ('first', 'invite', 'reset')),
    account_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (purpose, account_id)
) STRICT;

-- A second factor is used from its confirmation on. `last_step` is the time step of the last accepted code.
CREATE TABLE second_factors (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    secret TEXT NOT NULL,
    confirmed_at INTEGER NOT NULL DEFAULT 0,
    last_step INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE recovery_codes (
    code_hash BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX recovery_codes_of_account ON recovery_codes (account_id);

-- Failed attempts in a row. `subject` is a SHA-256, since a person may type a password instead of a name.
CREATE TABLE sign_in_failures (
    subject BLOB PRIMARY KEY,
    failures INTEGER NOT NULL,
    blocked_until INTEGER NOT NULL,
    failed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_failures_by_age ON sign_in_failures (failed_at);

-- An account without a row has the defaults: the browser's language, and no warning of a low balance.
CREATE TABLE preferences (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    language TEXT NOT NULL CHECK (language IN ('', 'zh', 'en')),
    low_balance INTEGER NOT NULL CHECK (low_balance >= 0)
) STRICT;

-- Codes that are redeemed for units. `units`, `uses` and `codes` are those of each code and of the whole batch.
CREATE TABLE code_batches (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    units INTEGER NOT NULL CHECK (units > 0),
    uses INTEGER NOT NULL CHECK (uses > 0),
    codes INTEGER NOT NULL CHECK (codes > 0),
    memo TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    disabled_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A code is stored as SHA-256 only.
CREATE TABLE codes (
    hash BLOB PRIMARY KEY,
    batch_id INTEGER NOT NULL REFERENCES code_batches (id),
    uses_left INTEGER NOT NULL CHECK (uses_left >= 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX codes_of_batch ON codes (batch_id);

CREATE TABLE redemptions (
    code_hash BLOB NOT NULL REFERENCES codes (hash),
    account_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (code_hash, account_id)
) STRICT, WITHOUT ROWID;

-- A leaky bucket of an account's unknown codes: `until` is when it is empty.
CREATE TABLE code_guesses (
    account_id INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;

-- The last request of each key that was refused or failed, with the error that was sent; for the key's page.
CREATE TABLE key_refusals (
    key_id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    status INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    request TEXT NOT NULL,
    request_id TEXT NOT NULL
) STRICT;

-- Public voices that the operator mixed from voices of an engine: `recipe` names these with their weights.
CREATE TABLE voice_blends (
    voice_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    gender TEXT NOT NULL,
    language TEXT NOT NULL,
    recipe TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Reports. A batch writes one row to `outbox` with its ledger entries and the calls that ended. A job folds these rows
-- into `entries`, `usage_hours`, `usage_days` and `site_hours`: an index on the ledger by account would cost every call
-- twice the log. See docs/decisions.
--
-- An hour begins at the minutes of the reporting zone, in Unix ms; `site.hour_offset_ms` is the zone's offset from UTC
-- modulo an hour. A day is the number of days since 1970-01-01 in the reporting zone. `kind` of usage is the scope
-- that paid. A call counts when it ended, an entry when it was entered.
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

-- `entries` is a JSON array of [call id in hexadecimal, kind, account, key, units]; `ended` is [hour, accounts, keys,
-- kinds, states, units charged, ms, channels], all but the hour arrays; [] without any. `size` is how many both have.
CREATE TABLE outbox (
    id BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    entries TEXT NOT NULL,
    ended TEXT NOT NULL
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
INSERT INTO rollup_state (counted_since, filled) VALUES (now_ms(), 1);

-- A cap of units of a key, which renews by day, week or month. `starts_at` identifies the period in which `used`
-- counts; it only rises. The row of a cap that was removed stays.
CREATE TABLE key_caps (
    key_id INTEGER PRIMARY KEY REFERENCES keys (id),
    units INTEGER NOT NULL CHECK (units > 0),
    period TEXT NOT NULL CHECK (period IN ('day', 'week', 'month')),
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    used INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0)
) STRICT;

-- What callers name as `model`: an exact name, or one that ends in `*`. `intent` is 1 if speech intents are spoken.
CREATE TABLE routes (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('chat', 'embeddings', 'speech', 'transcription')),
    units INTEGER NOT NULL CHECK (units >= 0),
    upstream_model TEXT NOT NULL,
    intent INTEGER NOT NULL CHECK (intent IN (0, 1)),
    created_at INTEGER NOT NULL
) STRICT;

-- The channels of a route; without rows, every channel of its kind.
CREATE TABLE route_channels (
    route TEXT NOT NULL REFERENCES routes (name),
    channel TEXT NOT NULL,
    PRIMARY KEY (route, channel)
) STRICT;

-- The routes to which a key is limited.
CREATE TABLE key_routes (
    key_id INTEGER NOT NULL REFERENCES keys (id),
    route TEXT NOT NULL,
    PRIMARY KEY (key_id, route)
) STRICT;
CREATE INDEX key_routes_of_route ON key_routes (route);

-- The limits of a key, or of an account where `key_id` is 0: null for the default of the site, 0 for none; and what
-- counts towards them. A minute and a day are windows of 60 s and 24 h from the first call in them. `day_from`
-- identifies the day in which `day_units` count; it only rises. `limited` is 1 while a key or an account has a limit
-- of its own; the row of one whose limits were removed stays.
CREATE TABLE limits (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id INTEGER NOT NULL,
    rpm INTEGER CHECK (rpm >= 0),
    concurrent INTEGER CHECK (concurrent >= 0),
    units_per_day INTEGER CHECK (units_per_day >= 0),
    minute_ends INTEGER NOT NULL DEFAULT 0,
    minute_calls INTEGER NOT NULL DEFAULT 0,
    open_calls INTEGER NOT NULL DEFAULT 0 CHECK (open_calls >= 0),
    day_from INTEGER NOT NULL DEFAULT 0,
    day_ends INTEGER NOT NULL DEFAULT 0,
    day_units INTEGER NOT NULL DEFAULT 0 CHECK (day_units >= 0),
    PRIMARY KEY (account_id, key_id)
) STRICT;

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

-- The accounts whose identity was removed: no e-mail address links them again.
CREATE TABLE oidc_unlinked (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id)
) STRICT;
