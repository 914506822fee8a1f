"""Pages for operators."""
