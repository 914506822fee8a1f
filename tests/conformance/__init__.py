"""The contract, asked of a real server process over HTTP, once on each database."""
