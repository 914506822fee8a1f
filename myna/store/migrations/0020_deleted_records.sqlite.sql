-- A deleted record has neither text nor audio, and is not listed. Its row stays: it belongs to a call.
ALTER TABLE tasks ADD COLUMN deleted_at INTEGER NOT NULL DEFAULT 0;
