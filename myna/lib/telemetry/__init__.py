"""The access log, logs and metrics."""
