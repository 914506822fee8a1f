"""Audio and samples at rest."""
