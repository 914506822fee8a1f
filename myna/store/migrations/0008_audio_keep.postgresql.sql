-- Audio is removed after 90 days where nothing is set. A site that has some keeps it for ever, as it did.
INSERT INTO settings (name, value)
SELECT 'audio_keep_days', '0' WHERE EXISTS (SELECT 1 FROM tasks)
ON CONFLICT (name) DO NOTHING;
