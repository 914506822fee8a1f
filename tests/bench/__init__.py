"""Tests of what the benchmark fills and how it measures, not of speed."""
