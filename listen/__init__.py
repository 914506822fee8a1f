"""Measures how well the voices are understood: Whisper transcribes the speech of a running service
(`make listen`)."""
