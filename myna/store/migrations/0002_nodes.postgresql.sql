-- Compute nodes, what each can speak, the queue of what they are to speak, and cloned voices.

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
    rests_until BIGINT NOT NULL DEFAULT 0,
    version text NOT NULL DEFAULT '',
    heard_at bigint NOT NULL DEFAULT 0,
    joined_at bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL
);

CREATE TABLE node_voices (
    node_id bigint NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    position bigint NOT NULL,
    voice_id text NOT NULL,
    name text NOT NULL,
    gender text NOT NULL,
    language text NOT NULL,
    PRIMARY KEY (node_id, voice_id)
);

-- The languages in which a node speaks with a voice it has only heard.
CREATE TABLE node_clones (
    node_id bigint NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    language text NOT NULL,
    PRIMARY KEY (node_id, language)
);

-- What the operator made of a public voice: another name, a place in the list (0: behind those that have
-- one), or out of sight.
CREATE TABLE voice_marks (
    voice_id text PRIMARY KEY,
    name text NOT NULL DEFAULT '',
    place bigint NOT NULL DEFAULT 0,
    hidden bigint NOT NULL DEFAULT 0
);

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
    progress bigint NOT NULL DEFAULT 0
);
CREATE INDEX clones_of_account ON clones (account_id, id);
CREATE INDEX clones_by_sample ON clones (sample_sha256);
CREATE INDEX clones_queued ON clones (account_id, id) WHERE status = 0;
CREATE INDEX clones_leased ON clones (lease_until) WHERE status = 1;
CREATE INDEX clones_by_preview ON clones (preview) WHERE preview <> '';
CREATE FUNCTION clone_has_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a clone that ended does not move'; END $$;
CREATE TRIGGER clones_end_once BEFORE UPDATE OF status ON clones
FOR EACH ROW WHEN (old.status IN (2, 3)) EXECUTE FUNCTION clone_has_ended();

-- A task that a node does. One that the site spoke itself has no deadline of its own and no lease.
ALTER TABLE tasks ADD COLUMN deadline bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tries bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN token_hash bytea NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN node_id bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN leased_at bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN lease_until bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN progress bigint NOT NULL DEFAULT 0;
CREATE INDEX tasks_queued ON tasks (account_id, voice_id, id) WHERE status = 0;
CREATE INDEX voices_queued ON tasks (voice_id) WHERE status = 0;
CREATE INDEX tasks_by_audio ON tasks (audio) WHERE audio <> '';
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE status = 1 AND lease_until > 0;

-- Whose turn it is: the number of the lease by which an account was last served.
CREATE TABLE turns (account_id bigint PRIMARY KEY, turn bigint NOT NULL);
CREATE INDEX turns_by_turn ON turns (turn);

-- The answer under way where a node does the work: its audio's name is still open.
ALTER TABLE reservations ADD COLUMN draft text;

-- Whoever waits hears of it at the COMMIT: `myna_work` when there is a job for a node, `myna_done` when a
-- node's task ended.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify(TG_ARGV[0], ''); RETURN NULL; END $$;
CREATE TRIGGER tasks_queue AFTER INSERT OR UPDATE OF status ON tasks
FOR EACH ROW WHEN (new.status = 0) EXECUTE FUNCTION tell('myna_work');
CREATE TRIGGER clones_queue AFTER INSERT OR UPDATE OF status ON clones
FOR EACH ROW WHEN (new.status = 0) EXECUTE FUNCTION tell('myna_work');
CREATE TRIGGER tasks_tell_their_end AFTER UPDATE OF status ON tasks
FOR EACH ROW WHEN (new.deadline > 0 AND new.status IN (2, 3)) EXECUTE FUNCTION tell('myna_done');
