"""The edge of /farm/v1, for compute nodes: bytes to structs and back, no decisions."""
