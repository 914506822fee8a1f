"""The protocol of the compute nodes, spoken by hand to a real service."""
