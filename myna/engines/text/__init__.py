"""Text before it is spoken: numbers, signs and sentences."""
