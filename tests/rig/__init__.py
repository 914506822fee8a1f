"""Real parts to test against: a database server, processes of the service, upstreams on real sockets."""
