"""Atomic files, and threads that a stalled disk may block."""
