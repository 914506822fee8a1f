"""Backup and restore of a whole site in one file."""
