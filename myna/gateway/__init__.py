"""Calls that a channel answers: chat, the relay of /openai/v1, transcription, and trials of channels."""
