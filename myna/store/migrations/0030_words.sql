-- How words are read: a lexicon of the site, account 0, and of each account that has words. `version` rises with each
-- change, so that a process can cache the words. `reading` is as in engines/text/notation.py.
CREATE TABLE lexicons (
    account_id bigint PRIMARY KEY,
    version bigint NOT NULL
);
CREATE TABLE words (
    account_id bigint NOT NULL REFERENCES lexicons (account_id),
    word text NOT NULL,
    reading text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (account_id, word)
);
