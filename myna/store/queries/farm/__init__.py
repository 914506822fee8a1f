"""Queries on compute nodes and their queue."""
