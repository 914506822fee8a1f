-- What the channel of a kept call said of it, as JSON: see telemetry/requests.py. Empty without tokens.
ALTER TABLE calls ADD COLUMN usage TEXT NOT NULL DEFAULT '';
