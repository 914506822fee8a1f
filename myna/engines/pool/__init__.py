"""A pool of child processes that do one job at a time and can be killed."""
