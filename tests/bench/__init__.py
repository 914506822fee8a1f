"""Tests of what the benchmark computes, fills and draws, not of speed."""
