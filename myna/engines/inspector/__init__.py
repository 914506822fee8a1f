"""Decoding of uploaded audio, in a child process."""
