-- Public voices that the operator mixed from voices of an engine: `recipe` names these with their weights.
CREATE TABLE voice_blends (
    voice_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    gender TEXT NOT NULL,
    language TEXT NOT NULL,
    recipe TEXT NOT NULL
) STRICT, WITHOUT ROWID;
