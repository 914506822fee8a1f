-- Nodes that reported a final failure of a job: `,ID,` for each. They aren't offered it again.
ALTER TABLE tasks ADD COLUMN refused_by TEXT NOT NULL DEFAULT '';
ALTER TABLE clones ADD COLUMN refused_by TEXT NOT NULL DEFAULT '';
CREATE INDEX tasks_refused ON tasks (voice_id) WHERE status = 0 AND refused_by <> '';
