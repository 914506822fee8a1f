"""Real clients of OpenAI's API against /openai/v1."""
