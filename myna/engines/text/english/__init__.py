"""English: numbers, signs and abbreviations in words. `reader.py` applies the rules of the other modules."""
