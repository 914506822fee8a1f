"""How many tokens a channel counted for a call: for the log and the metrics, never for the price.

The usage of an answer is at its end. Inside a string its name has a backslash before each quote, so bytes
that look like it are it, and a large answer is not decoded.
"""

import re
from typing import Final

from myna.lib.telemetry.requests import RequestDetails

END_BYTES: Final = 4096
"""Where in an answer its usage is looked for, counted from its end."""
BYTES_PER_TOKEN: Final = 4
"""Of JSON, in English; a Han character has three bytes."""
_USAGE: Final = b'"usage"'
_INPUT: Final = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*([0-9]{1,15})')
_OUTPUT: Final = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*([0-9]{1,15})')


def usage_at_end(answer: bytes) -> tuple[int, int] | None:
    """The tokens of the request and of the answer, by the last usage near its end; None without one."""
    end = answer[-END_BYTES:]
    found = end.rfind(_USAGE)
    if found < 0 or (given := _INPUT.search(end, found)) is None:
        return None
    made = _OUTPUT.search(end, found)
    return int(given[1]), int(made[1]) if made else 0


def note(details: RequestDetails, answer: bytes, request: bytes, output: int | None = None) -> None:
    """Notes the tokens of a call: those of the channel's usage, else counted from the size of the `request`
    and of the `answer`, or `output` where that is known better."""
    usage = usage_at_end(answer)
    details.tokens_counted = usage is None
    if usage is None:
        usage = len(request) // BYTES_PER_TOKEN, len(answer) // BYTES_PER_TOKEN if output is None else output
    details.input_tokens, details.output_tokens = usage
