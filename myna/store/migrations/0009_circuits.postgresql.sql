-- How the circuit of each channel stood when a serving process last opened or closed it; for the operator.
CREATE TABLE circuits (
    channel     text PRIMARY KEY,
    open_until  bigint NOT NULL,  -- 0: closed
    error       text NOT NULL,
    error_at    bigint NOT NULL
);
