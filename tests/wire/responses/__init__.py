"""The translation of responses to chat completions and back."""
