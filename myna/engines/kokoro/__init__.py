"""The Kokoro model: a neural voice in Mandarin and English."""
