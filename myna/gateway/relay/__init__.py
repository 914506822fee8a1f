"""Calls of /v1 and /openai/v1 that channels answer: passed on whole, or as a stream while it is made."""
