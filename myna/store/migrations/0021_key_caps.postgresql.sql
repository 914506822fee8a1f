-- A cap of units of a key, which renews by day, week or month. `starts_at` identifies the period in which `used`
-- counts; it only rises. `capped` is 1 while there is a cap, so that a charge of another key reads no cap; the row of
-- a cap that was removed stays.
CREATE TABLE key_caps (
    key_id bigint PRIMARY KEY REFERENCES keys (id),
    units bigint NOT NULL CHECK (units > 0),
    period text NOT NULL CHECK (period IN ('day', 'week', 'month')),
    starts_at bigint NOT NULL,
    ends_at bigint NOT NULL,
    used bigint NOT NULL DEFAULT 0 CHECK (used >= 0)
);
ALTER TABLE keys ADD COLUMN capped bigint NOT NULL DEFAULT 0;

-- The `starts_at` of the period whose cap a call was charged to; 0 without a cap.
ALTER TABLE calls ADD COLUMN cap_from bigint NOT NULL DEFAULT 0;
CREATE INDEX calls_capped ON calls (key_id, cap_from) WHERE cap_from > 0;
