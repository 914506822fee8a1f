"""Mandarin: numbers and signs in words. `reading.py` applies the rules of the other modules in order."""
