"""Calls of /openai/v1 that a channel answers: passed on whole, or as a stream while the answer is made."""
