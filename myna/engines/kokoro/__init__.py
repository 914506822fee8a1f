"""The Kokoro model: a neural voice in seven languages."""
