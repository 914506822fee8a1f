"""Samples and files of sound."""
