"""EDGE of /farm/v1: what compute nodes ask. Bytes to structs and back; decisions are elsewhere."""
