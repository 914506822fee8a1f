-- The job counts the calls in `usage_hours`, from the outbox. What a batch ended is now [hour, accounts, keys, kinds,
-- states, units charged, ms, channels], all but the hour arrays; [] without any. The column has a new name, so that a
-- server of an older version that still runs can't write to it. The calls that are in the outbox now have been
-- counted in their hours by their batches: they get key 0.
ALTER TABLE outbox RENAME COLUMN ends TO ended;
UPDATE outbox SET ended = (
    SELECT json_build_array(min((e ->> 1)::bigint), json_agg(e -> 0), json_agg(0), json_agg(e -> 2),
                            json_agg(2 - (e ->> 3)::bigint), json_agg(e -> 4), json_agg(e -> 5), json_agg(e -> 6))::text
    FROM jsonb_array_elements(ended::jsonb) AS e
) WHERE ended <> '[]';

-- The accounts whose identity was removed: no e-mail address links them again.
CREATE TABLE oidc_unlinked (
    account_id BIGINT PRIMARY KEY REFERENCES accounts (id)
);
