-- Idempotency keys are stored as SHA-256, in hexadecimal: a client may have sent a secret by mistake.
UPDATE reservations SET key = sha256_latin1(key);
