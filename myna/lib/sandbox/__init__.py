"""What child processes may do: file system, network and system calls."""
