-- How many requests of a process to the channel may be open. 0: a share of all outbound connections.
ALTER TABLE channels ADD COLUMN concurrent bigint NOT NULL DEFAULT 0;
