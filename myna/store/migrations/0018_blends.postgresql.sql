-- Public voices that the operator mixed from voices of an engine: `recipe` names these with their weights.
CREATE TABLE voice_blends (
    voice_id text PRIMARY KEY,
    name text NOT NULL,
    gender text NOT NULL,
    language text NOT NULL,
    recipe text NOT NULL
);
