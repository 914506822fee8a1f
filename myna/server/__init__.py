"""The process: the application, the composition of the service, periodic jobs."""
