"""Edge of /openai/v1: handlers for clients of OpenAI's API."""
