"""Compute nodes in the service: registration, capabilities, the queue, and the estimated wait of a task."""
