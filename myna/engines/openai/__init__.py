"""Speech servers with OpenAI's POST /audio/speech."""
