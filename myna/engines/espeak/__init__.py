"""espeak-ng in child processes."""
