-- Serves builds of schema 31 and later.
-- The id of this installation, and whether a storage of audio has it as a marker: see store/files/storage.py.
ALTER TABLE site ADD COLUMN id text NOT NULL DEFAULT '';
ALTER TABLE site ADD COLUMN storage_marked bigint NOT NULL DEFAULT 0;
