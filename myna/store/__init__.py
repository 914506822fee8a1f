"""All SQL and all bytes at rest."""
