-- The schema of 0.26.0, from which every database starts or was upgraded.
-- Times are Unix milliseconds; 0 stands for "never".
--
-- SQLite builds a table of its own for an IN of more than two values, each time that a statement checks it, so the
-- checks of what each call writes say BETWEEN.

CREATE TABLE site (
    version bigint NOT NULL,
    -- The fence of the audit's checkpoint: no new id is below it.
    closed_before bytea NOT NULL DEFAULT '',
    -- What compute nodes offer has a version of its own, 0 where no node ever offered anything.
    nodes_version bigint NOT NULL DEFAULT 0,
    hour_offset_ms bigint NOT NULL DEFAULT 0
);
INSERT INTO site (version) VALUES (1);

CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL);  -- WITHOUT ROWID

CREATE TABLE channels (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('chat', 'speech')),
    name text NOT NULL UNIQUE,
    url text NOT NULL,
    model text NOT NULL,
    key_env text NOT NULL,
    priority bigint NOT NULL,
    enabled bigint NOT NULL,
    created_at bigint NOT NULL,
    -- The share of a channel among those of its priority, 0 for the order of their ids; and whether its server offers
    -- POST /responses.
    weight bigint NOT NULL DEFAULT 0 CHECK (weight >= 0),
    responses bigint NOT NULL DEFAULT 0 CHECK (responses IN (0, 1))
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
);  -- WITHOUT ROWID

-- Rows that every call changes leave room on their page, so that a change touches no index.
CREATE TABLE accounts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    email text NOT NULL,
    operator bigint NOT NULL,
    disabled_at bigint NOT NULL DEFAULT 0,
    balance bigint NOT NULL DEFAULT 0 CHECK (balance >= 0),
    created_at bigint NOT NULL,
    limited bigint NOT NULL DEFAULT 0 CHECK (limited IN (0, 1))
) WITH (fillfactor = 50);
CREATE INDEX accounts_by_email ON accounts (lower(email)) WHERE email <> '';

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
    -- 1 while the key has a cap, so that a charge of another key reads no cap.
    capped bigint NOT NULL DEFAULT 0,
    -- An internal key has a random hash and no plain key: only the site charges calls to it. An account has at most
    -- one.
    internal bigint NOT NULL DEFAULT 0 CHECK (internal IN (0, 1)),
    -- 1 if the key is limited to `key_routes`, so that a charge of another key reads no row there.
    routed bigint NOT NULL DEFAULT 0 CHECK (routed IN (0, 1)),
    limited bigint NOT NULL DEFAULT 0 CHECK (limited IN (0, 1))
);
CREATE INDEX keys_of_account ON keys (account_id, id);
CREATE UNIQUE INDEX internal_keys ON keys (account_id) WHERE internal = 1;

-- A call that ended leaves an entry in the index of open calls until a vacuum. GET /me and the sweep read past
-- all of them, so a vacuum is due after 2 % of the books instead of 20 %, and it cleans the indexes however few
-- pages have changed.
CREATE TABLE calls (
    id bytea PRIMARY KEY,
    account_id bigint NOT NULL,
    key_id bigint NOT NULL,
    pays bigint NOT NULL,
    units bigint NOT NULL CHECK (units >= 0),
    state bigint NOT NULL CHECK (state BETWEEN 0 AND 2),
    created_at bigint NOT NULL,
    deadline bigint NOT NULL,
    ended_at bigint NOT NULL DEFAULT 0,
    -- The HTTP request that was charged, and the channel that answered it.
    request_id text NOT NULL DEFAULT '',
    channel text NOT NULL DEFAULT '',
    -- The `starts_at` of the period whose cap a call was charged to; 0 without a cap.
    cap_from bigint NOT NULL DEFAULT 0,
    -- The route of a call; "" before there were any.
    route text NOT NULL DEFAULT '',
    -- The `day_from` of the days in which a call counts towards the limits of its key and of its account; 0 if it
    -- doesn't.
    key_day bigint NOT NULL DEFAULT 0,
    account_day bigint NOT NULL DEFAULT 0,
    -- Why a call was refunded, or why its answer is incomplete although it was kept. Empty for a call that was kept
    -- with its complete answer, for an open one, and for calls that ended before 0.26.
    reason text NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_scale_factor = 0.02, vacuum_index_cleanup = on);  -- WITHOUT ROWID
CREATE INDEX calls_open ON calls (deadline, key_id, units) WHERE state = 0;
CREATE INDEX calls_capped ON calls (key_id, cap_from) WHERE cap_from > 0;
CREATE INDEX calls_of_key_day ON calls (key_id, key_day) WHERE key_day > 0;
CREATE INDEX calls_of_account_day ON calls (account_id, account_day) WHERE account_day > 0;

-- Append-only. A grant has an id of its own where a charge and a refund have their call's.
CREATE TABLE ledger (
    call_id bytea NOT NULL,
    kind bigint NOT NULL CHECK (kind BETWEEN 0 AND 3),
    account_id bigint NOT NULL,
    units bigint NOT NULL,
    memo text NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    PRIMARY KEY (call_id, kind)
);  -- WITHOUT ROWID

CREATE TABLE tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id bigint NOT NULL,
    call_id bytea NOT NULL UNIQUE,
    status bigint NOT NULL CHECK (status BETWEEN 0 AND 3),
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
    ended_at bigint NOT NULL DEFAULT 0,
    -- A task that a node does. One that the site spoke itself has no deadline of its own and no lease.
    deadline bigint NOT NULL DEFAULT 0,
    tries bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    token_hash bytea NOT NULL DEFAULT '',
    node_id bigint NOT NULL DEFAULT 0,
    leased_at bigint NOT NULL DEFAULT 0,
    lease_until bigint NOT NULL DEFAULT 0,
    progress bigint NOT NULL DEFAULT 0,
    -- Nodes that reported a final failure of a job: `,ID,` for each. They aren't offered it again.
    refused_by text NOT NULL DEFAULT '',
    -- A deleted record has neither text nor audio, and is not listed. Its row stays: it belongs to a call.
    deleted_at bigint NOT NULL DEFAULT 0
);
CREATE INDEX tasks_of_account ON tasks (account_id, id);
CREATE INDEX tasks_with_audio ON tasks (ended_at) WHERE audio <> '' AND audio_removed_at = 0;
CREATE INDEX tasks_queued ON tasks (account_id, voice_id, id) WHERE status = 0;
CREATE INDEX voices_queued ON tasks (voice_id) WHERE status = 0;
CREATE INDEX tasks_by_audio ON tasks (audio) WHERE audio <> '';
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE status = 1 AND lease_until > 0;
CREATE INDEX tasks_refused ON tasks (voice_id) WHERE status = 0 AND refused_by <> '';

-- `answer` is NULL while the first call is open.
CREATE TABLE reservations (
    account_id bigint NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    call_id bytea NOT NULL UNIQUE,
    answer text,
    created_at bigint NOT NULL,
    -- The answer under way where a node does the work: its audio's name is still open.
    draft text,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX reservations_by_age ON reservations (created_at);

-- A node is known by its credential once it joined with its token; only hashes are kept. `chars_per_s` is what
-- one of its jobs at a time has shown. Online is who was heard lately. Who failed rests, the longer the more
-- often in a row, so that another one gets the job.
CREATE TABLE nodes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    token_hash bytea UNIQUE,
    token_until bigint NOT NULL DEFAULT 0,
    credential_hash bytea UNIQUE,
    disabled_at bigint NOT NULL DEFAULT 0,
    draining bigint NOT NULL DEFAULT 0,
    slots bigint NOT NULL DEFAULT 0,
    chars_per_s double precision NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    rests_until bigint NOT NULL DEFAULT 0,
    version text NOT NULL DEFAULT '',
    heard_at bigint NOT NULL DEFAULT 0,
    joined_at bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    -- When the node's changes so far are forgotten: it may make so many at once.
    changes_until bigint NOT NULL DEFAULT 0
);

CREATE TABLE node_voices (
    node_id bigint NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    position bigint NOT NULL,
    voice_id text NOT NULL,
    name text NOT NULL,
    gender text NOT NULL,
    language text NOT NULL,
    PRIMARY KEY (node_id, voice_id)
);  -- WITHOUT ROWID

-- The languages in which a node speaks with a voice it has only heard.
CREATE TABLE node_clones (
    node_id bigint NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    language text NOT NULL,
    PRIMARY KEY (node_id, language)
);  -- WITHOUT ROWID

-- What the operator made of a public voice: another name, a place in the list (0: behind those that have
-- one), or out of sight.
CREATE TABLE voice_marks (
    voice_id text PRIMARY KEY,
    name text NOT NULL DEFAULT '',
    place bigint NOT NULL DEFAULT 0,
    hidden bigint NOT NULL DEFAULT 0
);  -- WITHOUT ROWID

-- A voice that an account made of a sample. `status`: 0 queued, 1 cloning, 2 ready, 3 failed. The columns from
-- `tries` on are the lease, as tasks have it.
CREATE TABLE clones (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    voice_id text NOT NULL UNIQUE,
    account_id bigint NOT NULL REFERENCES accounts (id),
    name text NOT NULL,
    language text NOT NULL,
    transcript text NOT NULL,
    sample text NOT NULL,
    sample_bytes bigint NOT NULL,
    sample_sha256 bytea NOT NULL,
    sample_ms bigint NOT NULL,
    consent_by text NOT NULL,
    consent_text text NOT NULL,
    consent_at bigint NOT NULL,
    status bigint NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3)),
    reason text NOT NULL DEFAULT '',
    preview text NOT NULL DEFAULT '',
    preview_bytes bigint NOT NULL DEFAULT 0,
    preview_sha256 bytea NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    ended_at bigint NOT NULL DEFAULT 0,
    tries bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    token_hash bytea NOT NULL DEFAULT '',
    node_id bigint NOT NULL DEFAULT 0,
    leased_at bigint NOT NULL DEFAULT 0,
    lease_until bigint NOT NULL DEFAULT 0,
    progress bigint NOT NULL DEFAULT 0,
    refused_by text NOT NULL DEFAULT ''
);
CREATE INDEX clones_of_account ON clones (account_id, id);
CREATE INDEX clones_by_sample ON clones (sample_sha256);
CREATE INDEX clones_queued ON clones (account_id, id) WHERE status = 0;
CREATE INDEX clones_leased ON clones (lease_until) WHERE status = 1;
CREATE INDEX clones_by_preview ON clones (preview) WHERE preview <> '';

-- Whose turn it is: the number of the lease by which an account was last served.
CREATE TABLE turns (account_id bigint PRIMARY KEY, turn bigint NOT NULL);
CREATE INDEX turns_by_turn ON turns (turn);

-- What each key used is counted once a call, when it ends, in rows so narrow that many share a page: with a
-- million keys every call still writes one page for it. Open calls are counted when somebody asks.
CREATE TABLE key_usage (
    key_id bigint PRIMARY KEY,
    calls bigint NOT NULL,
    ok_calls bigint NOT NULL,
    cost bigint NOT NULL,
    last_used_at bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The audit's checkpoint: calls and ledger entries with ids below `closed_until` were checked, are final, and are
-- summed up for each account and key.
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

-- How the circuit of each channel stood when a serving process last opened or closed it; for the operator.
CREATE TABLE circuits (
    channel text PRIMARY KEY,
    open_until bigint NOT NULL,  -- 0: closed
    error text NOT NULL,
    error_at bigint NOT NULL
);

-- Who changed what: the command line that makes the same change, with its account or 0. Append-only. The actor
-- is 0 for the command line. Names are stored because accounts can be renamed.
CREATE TABLE activity (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at bigint NOT NULL,
    actor_id bigint NOT NULL,
    actor text NOT NULL,
    address text NOT NULL,
    command text NOT NULL,
    account_id bigint NOT NULL
);
CREATE INDEX activity_of_account ON activity (account_id, id);
CREATE INDEX activity_by_actor ON activity (actor_id, id);

-- How account holders sign in to the back office. Passwords are argon2id hashes; tokens of sessions and links,
-- and recovery codes, are stored as SHA-256.
CREATE TABLE passwords (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    hash text NOT NULL,
    set_at bigint NOT NULL
);

-- A pending session waits for the second factor. `verified_at` is when the password was last entered.
CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token_hash bytea NOT NULL UNIQUE,
    account_id bigint NOT NULL REFERENCES accounts (id),
    pending bigint NOT NULL CHECK (pending BETWEEN 0 AND 1),
    second_factor bigint NOT NULL DEFAULT 0 CHECK (second_factor BETWEEN 0 AND 1),
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    verified_at bigint NOT NULL,
    address text NOT NULL,
    user_agent text NOT NULL
);
CREATE INDEX sessions_of_account ON sessions (account_id, id);

-- One-time links; one for each account and purpose. The first operator's has account 0.
CREATE TABLE links (
    token_hash bytea PRIMARY KEY,
    purpose text NOT NULL CHECK (purpose IN ('first', 'invite', 'reset')),
    account_id bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    UNIQUE (purpose, account_id)
);

-- A second factor is used from its confirmation on. `last_step` is the time step of the last accepted code.
CREATE TABLE second_factors (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    secret text NOT NULL,
    confirmed_at bigint NOT NULL DEFAULT 0,
    last_step bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL
);

CREATE TABLE recovery_codes (
    code_hash bytea PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES accounts (id)
);  -- WITHOUT ROWID
CREATE INDEX recovery_codes_of_account ON recovery_codes (account_id);

-- Failed attempts in a row. `subject` is a SHA-256, since a person may type a password instead of a name.
CREATE TABLE sign_in_failures (
    subject bytea PRIMARY KEY,
    failures bigint NOT NULL,
    blocked_until bigint NOT NULL,
    failed_at bigint NOT NULL
);  -- WITHOUT ROWID
CREATE INDEX sign_in_failures_by_age ON sign_in_failures (failed_at);

-- An account without a row has the defaults: the browser's language, and no warning of a low balance.
CREATE TABLE preferences (
    account_id bigint PRIMARY KEY REFERENCES accounts (id),
    language text NOT NULL CHECK (language IN ('', 'zh', 'en')),
    low_balance bigint NOT NULL CHECK (low_balance >= 0)
);

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
);  -- WITHOUT ROWID
CREATE INDEX codes_of_batch ON codes (batch_id);

CREATE TABLE redemptions (
    code_hash bytea NOT NULL REFERENCES codes (hash),
    account_id bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (code_hash, account_id)
);  -- WITHOUT ROWID

-- A leaky bucket of an account's unknown codes: `until` is when it is empty.
CREATE TABLE code_guesses (
    account_id bigint PRIMARY KEY,
    until bigint NOT NULL
);

-- The last request of each key that was refused or failed, with the error that was sent; for the key's page.
CREATE TABLE key_refusals (
    key_id bigint PRIMARY KEY,
    at bigint NOT NULL,
    status bigint NOT NULL,
    kind text NOT NULL,
    message text NOT NULL,
    request text NOT NULL,
    request_id text NOT NULL
);

-- Public voices that the operator mixed from voices of an engine: `recipe` names these with their weights.
CREATE TABLE voice_blends (
    voice_id text PRIMARY KEY,
    name text NOT NULL,
    gender text NOT NULL,
    language text NOT NULL,
    recipe text NOT NULL
);  -- WITHOUT ROWID

-- Reports. A batch writes one row to `outbox` with its ledger entries and the calls that ended. A job folds these rows
-- into `entries`, `usage_hours`, `usage_days` and `site_hours`: an index on the ledger by account would cost every call
-- twice the log. See docs/decisions.
--
-- An hour begins at the minutes of the reporting zone, in Unix ms; `site.hour_offset_ms` is the zone's offset from UTC
-- modulo an hour. A day is the number of days since 1970-01-01 in the reporting zone. `kind` of usage is the scope
-- that paid. A call counts when it ended, an entry when it was entered.
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
) WITH (fillfactor = 50);  -- WITHOUT ROWID

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
);  -- WITHOUT ROWID

-- Days whose hours have changed since `usage_days` was written.
CREATE TABLE stale_days (
    day bigint NOT NULL,
    account_id bigint NOT NULL,
    PRIMARY KEY (day, account_id)
);  -- WITHOUT ROWID

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
);  -- WITHOUT ROWID

-- `entries` is a JSON array of [call id in hexadecimal, kind, account, key, units]; `ended` is [hour, accounts, keys,
-- kinds, states, units charged, ms, channels], all but the hour arrays; [] without any. `size` is how many both have.
CREATE TABLE outbox (
    id bytea PRIMARY KEY,
    at bigint NOT NULL,
    size bigint NOT NULL,
    entries text NOT NULL,
    ended text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);  -- WITHOUT ROWID

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
);  -- WITHOUT ROWID
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
INSERT INTO rollup_state (counted_since, filled) VALUES (0, 1);

-- A cap of units of a key, which renews by day, week or month. `starts_at` identifies the period in which `used`
-- counts; it only rises. The row of a cap that was removed stays.
CREATE TABLE key_caps (
    key_id bigint PRIMARY KEY REFERENCES keys (id),
    units bigint NOT NULL CHECK (units > 0),
    period text NOT NULL CHECK (period IN ('day', 'week', 'month')),
    starts_at bigint NOT NULL,
    ends_at bigint NOT NULL,
    used bigint NOT NULL DEFAULT 0 CHECK (used >= 0)
);

-- What callers name as `model`: an exact name, or one that ends in `*`. `intent` is 1 if speech intents are spoken.
CREATE TABLE routes (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('chat', 'embeddings', 'speech', 'transcription')),
    units bigint NOT NULL CHECK (units >= 0),
    upstream_model text NOT NULL,
    intent bigint NOT NULL CHECK (intent IN (0, 1)),
    created_at bigint NOT NULL
);

-- The channels of a route; without rows, every channel of its kind.
CREATE TABLE route_channels (
    route text NOT NULL REFERENCES routes (name),
    channel text NOT NULL,
    PRIMARY KEY (route, channel)
);

-- The routes to which a key is limited.
CREATE TABLE key_routes (
    key_id bigint NOT NULL REFERENCES keys (id),
    route text NOT NULL,
    PRIMARY KEY (key_id, route)
);
CREATE INDEX key_routes_of_route ON key_routes (route);

-- The limits of a key, or of an account where `key_id` is 0: null for the default of the site, 0 for none; and what
-- counts towards them. A minute and a day are windows of 60 s and 24 h from the first call in them. `day_from`
-- identifies the day in which `day_units` count; it only rises. `limited` is 1 while a key or an account has a limit
-- of its own; the row of one whose limits were removed stays.
CREATE TABLE limits (
    account_id bigint NOT NULL REFERENCES accounts (id),
    key_id bigint NOT NULL,
    rpm bigint CHECK (rpm >= 0),
    concurrent bigint CHECK (concurrent >= 0),
    units_per_day bigint CHECK (units_per_day >= 0),
    minute_ends bigint NOT NULL DEFAULT 0,
    minute_calls bigint NOT NULL DEFAULT 0,
    open_calls bigint NOT NULL DEFAULT 0 CHECK (open_calls >= 0),
    day_from bigint NOT NULL DEFAULT 0,
    day_ends bigint NOT NULL DEFAULT 0,
    day_units bigint NOT NULL DEFAULT 0 CHECK (day_units >= 0),
    PRIMARY KEY (account_id, key_id)
) WITH (fillfactor = 50);

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

-- The accounts whose identity was removed: no e-mail address links them again.
CREATE TABLE oidc_unlinked (
    account_id bigint PRIMARY KEY REFERENCES accounts (id)
);
