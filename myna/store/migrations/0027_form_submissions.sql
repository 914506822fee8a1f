-- Forms of the back office that changed something. A row is written in the transaction of the change, so that a form
-- that is sent twice changes it once. `once_hash` is the SHA-256 of the form's value, `attempt` is random and names the
-- request that made the change. `answer` is the response, sealed by the form's value; `shown` is whether its page was.
CREATE TABLE form_submissions (
    once_hash bytea PRIMARY KEY,
    attempt bytea NOT NULL,
    answer bytea,
    shown bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL
);
CREATE INDEX form_submissions_by_age ON form_submissions (created_at);
CREATE INDEX form_submissions_answered ON form_submissions (created_at) WHERE answer IS NOT NULL;
