"""Fetching, checking and placing models."""
