-- A call that ended leaves an entry in the index of open calls until a vacuum. GET /me and the sweep read past
-- all of them, so a vacuum is due after 2 % of the books instead of 20 %, and it cleans the indexes however few
-- pages have changed.
ALTER TABLE calls SET (autovacuum_vacuum_scale_factor = 0.02, vacuum_index_cleanup = on);
