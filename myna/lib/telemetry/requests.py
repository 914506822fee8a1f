"""The details of a request, for its log line, its metrics, and the headers of its answer.

Its `Request` and its caller have the `RequestDetails`; handlers and use cases fill them in.
"""

import msgspec
from msgspec import Struct

from myna.errors import MynaError

MODEL_MAX_CHARS = 100


class Usage(Struct, frozen=True, omit_defaults=True):
    """The tokens of a call; see `RequestDetails`."""

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_counted: bool = False
    first_byte_ms: float = 0


_encode = msgspec.json.Encoder().encode


class RequestDetails(Struct, gc=False):
    """Details of a request; 0, empty or None if unknown. `error_type` is the type in the error envelope.
    `units` were charged and not refunded. `route` is the name of the model's route, and `model` what the
    caller asked for. `channel` answered or was tried last; its tokens are those of its usage, unless
    `tokens_counted`; its stream began after `first_byte_ms`. `replay_of` is the id, in hex, of the call whose
    stored response was sent. `balance` is the account's at the last key check or charge, `ignored`
    names unknown fields of the body (see `body.ignored`), `ignored_tools` the tools that were left out,
    `unspoken` counts what of a text was not spoken, `message` is that of the error envelope, `call_id` is the
    charged call, and `rate_headers` are the headers about its limits; these seven are not logged."""

    account_id: int = 0
    key_id: int = 0
    error_type: str = ""
    units: int = 0
    channel: str = ""
    route: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_counted: bool = False
    first_byte_ms: float | None = None
    replay_of: str = ""
    balance: int = 0
    ignored: str = ""
    ignored_tools: str = ""
    unspoken: dict[str, int] = {}
    message: str = ""
    call_id: bytes = b""
    rate_headers: dict[str, str] = {}

    @property
    def usage(self) -> str:
        """What is stored with the call, as JSON; empty without tokens."""
        if not self.input_tokens and not self.output_tokens:
            return ""
        began_ms = self.first_byte_ms or 0.0
        found = Usage(self.model, self.input_tokens, self.output_tokens, self.tokens_counted, began_ms)
        return _encode(found).decode()

    def asks(self, channel: str) -> None:
        """The channel is asked. The tokens of one that has failed before it are not counted."""
        self.channel = channel
        self.input_tokens = self.output_tokens = 0

    def failed(self, error: MynaError) -> None:
        """The request ends with this error."""
        self.error_type, self.message = error.type, error.message


class CompletedRequest(Struct, frozen=True, gc=False):
    """A completed request. `route` has few values, for the metrics. `path` is the requested path without its
    query, which may contain secrets. `ended_at` in Unix seconds, `address` is the client's."""

    request_id: str
    method: str
    route: str
    path: str
    status: int
    seconds: float
    ended_at: float
    details: RequestDetails
    address: str = ""
