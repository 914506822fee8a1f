-- What only PostgreSQL has of the schema of 0.26.0.

-- Not inlined on purpose: a test moves the clock by replacing it.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint; END $$;

COMMENT ON INDEX calls_open IS 'for sweeps; a batch finds its calls by their ids';

CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;
CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE OR DELETE ON ledger
FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_keeps_all_entries BEFORE TRUNCATE ON ledger
FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

CREATE FUNCTION task_has_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a task that ended does not move'; END $$;
CREATE TRIGGER tasks_end_once BEFORE UPDATE OF status ON tasks
FOR EACH ROW WHEN (old.status IN (2, 3)) EXECUTE FUNCTION task_has_ended();

CREATE FUNCTION clone_has_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a clone that ended does not move'; END $$;
CREATE TRIGGER clones_end_once BEFORE UPDATE OF status ON clones
FOR EACH ROW WHEN (old.status IN (2, 3)) EXECUTE FUNCTION clone_has_ended();

CREATE FUNCTION activity_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the activity is append-only'; END $$;
CREATE TRIGGER activity_keeps_rows BEFORE UPDATE OR DELETE ON activity
FOR EACH ROW EXECUTE FUNCTION activity_is_append_only();
CREATE TRIGGER activity_keeps_all_rows BEFORE TRUNCATE ON activity
FOR EACH STATEMENT EXECUTE FUNCTION activity_is_append_only();

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
