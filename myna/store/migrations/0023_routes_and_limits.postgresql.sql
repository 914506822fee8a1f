-- What callers name as `model`: an exact name, or one that ends in `*`. `intent` is 1 if speech intents are spoken.
CREATE TABLE routes (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('chat', 'embeddings', 'speech', 'transcription')),
    units bigint NOT NULL CHECK (units >= 0),
    upstream_model text NOT NULL,
    intent bigint NOT NULL CHECK (intent IN (0, 1)),
    created_at bigint NOT NULL
);
-- The channels of a route; without rows, every channel of its kind.
CREATE TABLE route_channels (
    route text NOT NULL REFERENCES routes (name),
    channel text NOT NULL,
    PRIMARY KEY (route, channel)
);

-- The routes to which a key is limited. `routed` is 1 if it is, so that a charge of another key reads no row here.
CREATE TABLE key_routes (
    key_id bigint NOT NULL REFERENCES keys (id),
    route text NOT NULL,
    PRIMARY KEY (key_id, route)
);
CREATE INDEX key_routes_of_route ON key_routes (route);
ALTER TABLE keys ADD COLUMN routed bigint NOT NULL DEFAULT 0 CHECK (routed IN (0, 1));

-- The share of a channel among those of its priority, 0 for the order of their ids; and whether its server offers
-- POST /responses.
ALTER TABLE channels ADD COLUMN weight bigint NOT NULL DEFAULT 0 CHECK (weight >= 0);
ALTER TABLE channels ADD COLUMN responses bigint NOT NULL DEFAULT 0 CHECK (responses IN (0, 1));

-- The limits of a key, or of an account where `key_id` is 0: null for the default of the site, 0 for none; and what
-- counts towards them. A minute and a day are windows of 60 s and 24 h from the first call in them. `day_from`
-- identifies the day in which `day_units` count; it only rises. `limited` is 1 while a key or an account has a limit
-- of its own; the row of one whose limits were removed stays.
CREATE TABLE limits (
    account_id bigint NOT NULL REFERENCES accounts (id),
    key_id bigint NOT NULL,
    rpm bigint CHECK (rpm >= 0),
    concurrent bigint CHECK (concurrent >= 0),
    units_per_day bigint CHECK (units_per_day >= 0),
    minute_ends bigint NOT NULL DEFAULT 0,
    minute_calls bigint NOT NULL DEFAULT 0,
    open_calls bigint NOT NULL DEFAULT 0 CHECK (open_calls >= 0),
    day_from bigint NOT NULL DEFAULT 0,
    day_ends bigint NOT NULL DEFAULT 0,
    day_units bigint NOT NULL DEFAULT 0 CHECK (day_units >= 0),
    PRIMARY KEY (account_id, key_id)
) WITH (fillfactor = 50);
ALTER TABLE keys ADD COLUMN limited bigint NOT NULL DEFAULT 0 CHECK (limited IN (0, 1));
ALTER TABLE accounts ADD COLUMN limited bigint NOT NULL DEFAULT 0 CHECK (limited IN (0, 1));

-- The route of a call; "" before there were any.
ALTER TABLE calls ADD COLUMN route text NOT NULL DEFAULT '';
-- The `day_from` of the days in which a call counts towards the limits of its key and of its account; 0 if it doesn't.
ALTER TABLE calls ADD COLUMN key_day bigint NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN account_day bigint NOT NULL DEFAULT 0;
CREATE INDEX calls_of_key_day ON calls (key_id, key_day) WHERE key_day > 0;
CREATE INDEX calls_of_account_day ON calls (account_id, account_day) WHERE account_day > 0;
