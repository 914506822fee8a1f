"""Structs of the wire: what goes in and out, field by field."""
