-- Room for changes was for the counters, which have a table of their own since. Pages that are there stay as they
-- are until a VACUUM FULL.
ALTER TABLE keys RESET (fillfactor);
