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
