-- The last request of each key that was refused or failed, with the error that was sent; for the key's page.
CREATE TABLE key_refusals (
    key_id bigint PRIMARY KEY,
    at bigint NOT NULL,
    status bigint NOT NULL,
    kind text NOT NULL,
    message text NOT NULL,
    request text NOT NULL,
    request_id text NOT NULL
);
