"""Voices apart from their engines: clones, overrides and the lexicon."""
