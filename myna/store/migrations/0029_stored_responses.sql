-- Responses of /openai/v1/responses that the site keeps, so that a later request can continue them. `input` has the
-- request's own items, without those of `previous_id`, which it continues; `answer` is the response. Both are JSON, and
-- `bytes` is their size, for the storage quota.
CREATE TABLE stored_responses (
    id text PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    previous_id text,
    input bytea NOT NULL,
    answer bytea NOT NULL,
    bytes bigint NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX stored_responses_by_account ON stored_responses (account_id, bytes);
CREATE INDEX stored_responses_by_age ON stored_responses (created_at);
CREATE INDEX stored_responses_continued ON stored_responses (previous_id) WHERE previous_id IS NOT NULL;
