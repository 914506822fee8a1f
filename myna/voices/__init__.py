"""What the site knows of voices beside their engines: clones, overrides, words."""
