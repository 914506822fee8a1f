-- Why a call was refunded, or why its answer is incomplete although it was kept. Empty for a call that was kept with its
-- complete answer, for an open one, and for calls that ended before this migration.
ALTER TABLE calls ADD COLUMN reason TEXT NOT NULL DEFAULT '';
