"""Limits that the store keeps by itself."""

RESERVATION_LIFE_MS = 24 * 3600 * 1000
"""An Idempotency-Key is remembered for a day."""
