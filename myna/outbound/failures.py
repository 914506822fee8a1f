"""What can go wrong on the way out, drawn as a tree.

OutboundFailed
├── Unreachable      no connection: a bad address or header, DNS, refused, TLS; not one byte was sent
├── TimedOut         the total deadline passed, whatever the call was waiting for
├── Broken           the connection ended in mid-call, or the answer is no HTTP
└── AnswerTooLarge   the answer, or its head, is over its limit
"""


class OutboundFailed(Exception):
    """A call has no answer. The message names host and port, never a path, a header or who logs in."""


class Unreachable(OutboundFailed):
    """There was no connection; nothing was sent, so another address may be tried without a second thought."""


class TimedOut(OutboundFailed):
    """The deadline passed; the server may be working on the call still."""


class Broken(OutboundFailed):
    """The connection ended before the answer, or that is no HTTP; the server may have done its work."""


class AnswerTooLarge(OutboundFailed):
    """The answer is over what the caller takes; the rest of it was not read."""
