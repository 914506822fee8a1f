"""The compute node: a program on somebody's machine that speaks for a site.

It makes outgoing calls alone, so it may stand behind any NAT. It asks the site for jobs, speaks them with the
engines of its own machine, and brings the audio back. `python -m myna node run` is it.
"""
