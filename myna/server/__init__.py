"""The process: the ASGI application, the composition of the service, periodic jobs."""
