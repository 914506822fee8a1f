"""Myna: a self-hosted open AI platform, charged by the unit."""

__version__ = "0.34.3"
