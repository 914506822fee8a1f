-- What compute nodes offer has a version of its own, 0 where no node ever offered anything. `changes_until` is
-- when a node's changes so far are forgotten: it may make so many at once.
ALTER TABLE site ADD COLUMN nodes_version BIGINT NOT NULL DEFAULT 0;
UPDATE site SET nodes_version = 1 WHERE EXISTS (SELECT 1 FROM nodes);
ALTER TABLE nodes ADD COLUMN changes_until BIGINT NOT NULL DEFAULT 0;
