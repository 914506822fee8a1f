-- `commit_batch`, which is written anew behind each migration, finds calls by their ids alone: the index of open
-- ones has an entry for each call since the last vacuum.
COMMENT ON INDEX calls_open IS 'for sweeps; a batch finds its calls by their ids';
