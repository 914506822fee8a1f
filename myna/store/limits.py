"""Limits of the store."""

IDEMPOTENCY_KEY_LIFE_MS = 24 * 3600 * 1000
"""An idempotency key is kept for a day."""
STORED_ANSWER_MAX_BYTES = 128 * 1024
"""A larger answer is not stored for retries. The longest answers of language models are smaller."""
REPORT_QUERY_MAX_MS = 200
"""How long a query of a report may take. It shares the disk and the cores with the calls."""
MINUTE_MS = 60_000
DAY_MS = 86_400_000
"""The windows of the limits of keys and accounts. The same numbers are in `routines.postgresql.sql`."""
