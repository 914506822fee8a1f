"""The compute node: a program that leases speech jobs from a service and speaks them with its own engines.

It only makes outgoing connections, so it works behind any NAT. It is started with `python -m myna node run`.
"""
