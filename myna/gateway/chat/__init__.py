"""Chat: the intent of an instruction, and the call to the upstream model."""
