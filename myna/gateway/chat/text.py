"""Text of conversations: its Han, in which the contract counts tokens, and the tokens that a channel counted.

The latter are for the log and the metrics, never for the price. The usage of an answer is at its end. Inside
a string its name has a backslash before each quote, so bytes that look like it are it, and a large answer is
not decoded.
"""

import re
from typing import Final

from myna.lib.telemetry.requests import RequestDetails

_ASCII = bytes(range(128))
# The Unicode script Han (Scripts.txt of Unicode 17). A character class of `re` is several times as fast as
# \p{Script=Han} of `regex`, and this runs on the event loop over whole conversations.
_HAN = (
    "\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufa6d\ufa70-\ufad9\U00016fe2-\U00016fe3\U00016ff0-\U00016ff6\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81e\U0002b820-\U0002cead\U0002ceb0-\U0002ebe0\U0002ebf0-\U0002ee5d"
    "\U0002f800-\U0002fa1d\U00030000-\U0003134a\U00031350-\U00033479"
)
_HAN_RUN = re.compile(f"[{_HAN}]+")
END_BYTES: Final = 4096
"""Where in an answer its usage is looked for, counted from its end."""
BYTES_PER_TOKEN: Final = 4
"""Of JSON, in English; a Han character has three bytes."""
_USAGE: Final = b'"usage"'
_INPUT: Final = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*([0-9]{1,15})')
_OUTPUT: Final = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*([0-9]{1,15})')


def han_count(text: str) -> int:
    """The number of code points in `text` whose Unicode script is Han; 々 and 〇 are, kana and 。 are not."""
    if text.isascii():
        return 0
    rest = text.encode("utf-8", "ignore").translate(None, _ASCII).decode()
    return sum(map(len, _HAN_RUN.findall(rest)))


def usage_at_end(answer: bytes) -> tuple[int, int] | None:
    """The tokens of the request and of the answer, by the last usage near its end; None without one."""
    end = answer[-END_BYTES:]
    found = end.rfind(_USAGE)
    if found < 0 or (given := _INPUT.search(end, found)) is None:
        return None
    made = _OUTPUT.search(end, found)
    return int(given[1]), int(made[1]) if made else 0


def note_tokens(details: RequestDetails, answer: bytes, request: bytes, output: int | None = None) -> None:
    """Notes the tokens of a call: those of the channel's usage, else counted from the size of the `request`
    and of the `answer`, or `output` where that is known better."""
    usage = usage_at_end(answer)
    details.tokens_counted = usage is None
    if usage is None:
        usage = len(request) // BYTES_PER_TOKEN, len(answer) // BYTES_PER_TOKEN if output is None else output
    details.input_tokens, details.output_tokens = usage
