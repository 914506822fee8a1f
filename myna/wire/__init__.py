"""Structs of requests and responses, their strict decoding, and validation errors."""
