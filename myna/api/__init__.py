"""The edge of /v1: bytes to structs and back, no decisions."""
