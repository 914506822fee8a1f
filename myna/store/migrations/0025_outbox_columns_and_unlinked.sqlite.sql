-- The job counts the calls in `usage_hours`, from the outbox. What a batch ended is now [hour, accounts, keys, kinds,
-- states, units charged, ms, channels], all but the hour arrays; [] without any. The column has a new name, so that a
-- server of an older version that still runs can't write to it. The calls that are in the outbox now have been
-- counted in their hours by their batches: they get key 0.
ALTER TABLE outbox RENAME COLUMN ends TO ended;
UPDATE outbox SET ended = (
    SELECT json_array(min(value ->> 1), json_group_array(value ->> 0), json_group_array(0), json_group_array(value ->> 2),
                      json_group_array(2 - (value ->> 3)), json_group_array(value ->> 4), json_group_array(value ->> 5),
                      json_group_array(value ->> 6))
    FROM json_each(ended)
) WHERE ended <> '[]';

-- The accounts whose identity was removed: no e-mail address links them again.
CREATE TABLE oidc_unlinked (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id)
) STRICT;
