"""Transcription of recordings: by a channel of the operator, or by the embedded Whisper."""
