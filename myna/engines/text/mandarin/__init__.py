"""Mandarin: numbers and signs in words. `reader.py` applies the rules of the other modules in order."""
