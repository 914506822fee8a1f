"""The handlers of the HTTP endpoints: they decode requests, call the use cases and encode responses."""
