"""Accounts, their keys, limits and sign-in, and the record of who changed what."""
