"""All queries but those of the batch, one module for each noun."""
