"""Whisper: transcribes recordings in a child process."""
