"""Decoding of audio that strangers send, in a child process."""
