"""Speech: from a text and a voice to an audio address."""
