"""Stored files: audio and samples of voices."""
