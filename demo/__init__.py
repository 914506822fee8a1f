"""`make demo`: Myna started for real and used as a client would, then left running."""
