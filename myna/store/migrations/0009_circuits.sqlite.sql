-- How the circuit of each channel stood when a serving process last opened or closed it; for the operator.
CREATE TABLE circuits (
    channel     TEXT PRIMARY KEY,
    open_until  INTEGER NOT NULL,  -- 0: closed
    error       TEXT NOT NULL,
    error_at    INTEGER NOT NULL
) STRICT;
