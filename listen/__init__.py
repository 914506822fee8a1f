"""How well the voices are understood: Whisper hears what a running service speaks (`make listen`)."""
