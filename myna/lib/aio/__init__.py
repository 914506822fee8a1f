"""Additions to asyncio for the request path: a write buffer and shared timers."""
