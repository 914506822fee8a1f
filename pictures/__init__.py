"""Draws the pictures of the documentation as SVG: `python -m pictures`."""
