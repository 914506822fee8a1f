-- The job counts the calls in `usage_hours`, from the outbox. `ends` of a batch is now [hour, accounts, keys, kinds,
-- states, units charged, ms, channels], all but the hour arrays; [] without any. The calls that wait have been counted
-- in their hours by their batches: they get key 0.
UPDATE outbox SET ends = (
    SELECT json_array(min(value ->> 1), json_group_array(value ->> 0), json_group_array(0), json_group_array(value ->> 2),
                      json_group_array(2 - (value ->> 3)), json_group_array(value ->> 4), json_group_array(value ->> 5),
                      json_group_array(value ->> 6))
    FROM json_each(ends)
) WHERE ends <> '[]';
