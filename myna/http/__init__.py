"""The HTTP server: connections, limits on bodies, routes and the error envelope."""
