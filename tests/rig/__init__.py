"""Real parts to test against: a database server, the service's own process, upstreams on real sockets."""
