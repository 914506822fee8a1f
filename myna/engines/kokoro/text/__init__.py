"""Text to the phonemes of Kokoro: Mandarin, English, both mixed, cut into pieces."""
