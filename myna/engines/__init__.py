"""What speaks, each in a process that can be killed."""
