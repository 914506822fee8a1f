-- The last request of each key that was refused or failed, with the error that was sent; for the key's page.
CREATE TABLE key_refusals (
    key_id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    status INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    request TEXT NOT NULL,
    request_id TEXT NOT NULL
) STRICT;
