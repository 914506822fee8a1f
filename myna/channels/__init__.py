"""Upstream channels and the routes that they serve."""
