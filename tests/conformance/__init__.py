"""The contract of /v1, tested over HTTP against a server process, once on each database."""
