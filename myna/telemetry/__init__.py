"""What is observed: the access log, logs and metrics."""
