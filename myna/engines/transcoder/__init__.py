"""Conversion of stored speech to other formats, in a child process."""
