"""Chat: what an instruction asks for, and the call to the model behind it."""
