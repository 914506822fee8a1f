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
CREATE FUNCTION activity_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the activity is append-only'; END $$;
CREATE TRIGGER activity_keeps_rows BEFORE UPDATE OR DELETE ON activity
FOR EACH ROW EXECUTE FUNCTION activity_is_append_only();
CREATE TRIGGER activity_keeps_all_rows BEFORE TRUNCATE ON activity
FOR EACH STATEMENT EXECUTE FUNCTION activity_is_append_only();
