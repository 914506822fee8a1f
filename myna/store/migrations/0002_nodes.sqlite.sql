-- Compute nodes, what each can speak, the queue of what they are to speak, and cloned voices.

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
    created_at INTEGER NOT NULL
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
    progress INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX clones_of_account ON clones (account_id, id);
CREATE INDEX clones_by_sample ON clones (sample_sha256);
CREATE INDEX clones_queued ON clones (account_id, id) WHERE status = 0;
CREATE INDEX clones_leased ON clones (lease_until) WHERE status = 1;
CREATE INDEX clones_by_preview ON clones (preview) WHERE preview <> '';
CREATE TRIGGER clones_end_once BEFORE UPDATE OF status ON clones WHEN old.status IN (2, 3)
BEGIN SELECT RAISE(ABORT, 'a clone that ended does not move'); END;

-- A task that a node does. One that the site spoke itself has no deadline of its own and no lease.
ALTER TABLE tasks ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN token_hash BLOB NOT NULL DEFAULT x'';
ALTER TABLE tasks ADD COLUMN node_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN leased_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN lease_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN progress INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_queued ON tasks (account_id, voice_id, id) WHERE status = 0;
CREATE INDEX voices_queued ON tasks (voice_id) WHERE status = 0;
CREATE INDEX tasks_by_audio ON tasks (audio) WHERE audio <> '';
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE status = 1 AND lease_until > 0;

-- Whose turn it is: the number of the lease by which an account was last served.
CREATE TABLE turns (account_id INTEGER PRIMARY KEY, turn INTEGER NOT NULL) STRICT;
CREATE INDEX turns_by_turn ON turns (turn);

-- The answer under way where a node does the work: its audio's name is still open.
ALTER TABLE reservations ADD COLUMN draft TEXT;
