-- How words are read: a lexicon of the site, account 0, and of each account that has words. `version` rises with each
-- change, so that a process can cache the words. `reading` is as in engines/text/notation.py.
CREATE TABLE lexicons (
    account_id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;
CREATE TABLE words (
    account_id INTEGER NOT NULL REFERENCES lexicons (account_id),
    word TEXT NOT NULL,
    reading TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, word)
) STRICT;
