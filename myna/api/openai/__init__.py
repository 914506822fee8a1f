"""Edge of /openai/v1, with the shapes of OpenAI's API."""
