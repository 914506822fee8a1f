"""Speech engines, one package each, and the decoder of uploaded audio."""
