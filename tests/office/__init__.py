"""The back office, by HTTP and in a real browser."""
