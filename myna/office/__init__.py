"""The back office: the edge under /office, for people with a browser.

`edge` routes requests and checks them, `visit` is one request with its session, `pages/` has one module for
each page, `render` turns a template into HTML. Pages call the same domain modules as the API and the command
line. They contain no rules.
"""
