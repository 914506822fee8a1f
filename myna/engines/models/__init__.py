"""Published models: what there is, fetching, and the folders they are in."""
