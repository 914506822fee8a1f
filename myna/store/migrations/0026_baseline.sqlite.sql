-- What only SQLite has of the schema of 0.26.0.

CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_keeps_all_entries BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tasks_end_once BEFORE UPDATE OF status ON tasks WHEN old.status IN (2, 3)
BEGIN SELECT RAISE(ABORT, 'a task that ended does not move'); END;
CREATE TRIGGER clones_end_once BEFORE UPDATE OF status ON clones WHEN old.status IN (2, 3)
BEGIN SELECT RAISE(ABORT, 'a clone that ended does not move'); END;
CREATE TRIGGER activity_keeps_rows BEFORE UPDATE ON activity
BEGIN SELECT RAISE(ABORT, 'the activity is append-only'); END;
CREATE TRIGGER activity_keeps_all_rows BEFORE DELETE ON activity
BEGIN SELECT RAISE(ABORT, 'the activity is append-only'); END;
