"""Who makes the changes of a test."""

from myna.activity import Actor

TESTER = Actor(account_id=0, name="tester", address="")
