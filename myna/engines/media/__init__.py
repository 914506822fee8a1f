"""Recordings and stored speech: decoding, conversion and transcription in confined child processes."""
