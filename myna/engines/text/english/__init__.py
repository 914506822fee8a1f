"""English: numbers, signs and abbreviations in words. `reading.py` applies the rules of the other modules."""
