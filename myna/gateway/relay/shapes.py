"""How the events of a stream look to the client: what is read of each, the last ones, and an error."""

from typing import Any, Final, Protocol

from myna.channels.channels import Channel
from myna.errors import MynaError
from myna.gateway.chat.text import han_count
from myna.gateway.relay.answers import usage_of
from myna.gateway.relay.events import Observer, loaded
from myna.http.responses import openai_error
from myna.wire import typed
from myna.wire.body import to_event
from myna.wire.lenient import is_set, object_of, objects_of, text_of
from myna.wire.responses.completion import usage_in

DONE: Final = b"data: [DONE]\n\n"


class Shape(Protocol):
    """The shape of one client's events."""

    def observer_for(self, channel: Channel) -> Observer | None:
        """Reads or translates the events of this channel, which is asked next; None: they pass on
        unparsed."""

    def last(self) -> bytes:
        """The events at the end of a complete answer. Called once."""

    def failed(self, error: MynaError) -> bytes:
        """The event that ends an incomplete answer."""


class Passed:
    """Chat completions as the channel sends them, with `[DONE]` at the end."""

    def observer_for(self, channel: Channel) -> Observer | None:
        return None

    def last(self) -> bytes:
        return DONE

    def failed(self, error: MynaError) -> bytes:
        return to_event(openai_error(error))


class WithUsage(Passed):
    """Chat completions with an event about the usage before the end: the channel's, else one in which Han
    characters are counted."""

    def __init__(self, prompt_tokens: int, model: str) -> None:
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._begin()

    def _begin(self) -> None:
        self._completion_tokens = 0
        self._first: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None
        self._is_sent = False

    def observer_for(self, channel: Channel) -> Observer:
        self._begin()  # a channel that failed has perhaps been read
        return self

    def feed(self, data: bytes) -> None:
        """Reads an event. Raises UNREADABLE and BrokenEvents."""
        if self._is_sent:
            return
        chunk = object_of(loaded(data))
        self._first = self._first or chunk
        self._is_sent = is_set(chunk.get("usage"))
        self._usage = self._usage or typed.usage(usage_in(chunk))
        self._completion_tokens += han_count_of(chunk)

    def last(self) -> bytes:
        return DONE if self._is_sent else self._counted() + DONE

    def _counted(self) -> bytes:
        usage = self._usage or usage_of(self._prompt_tokens, self._completion_tokens)
        first = self._first or {}
        kind = "text_completion" if first.get("object") == "text_completion" else "chat.completion.chunk"
        given: dict[str, Any] = {name: first[name] for name in ("id", "created") if name in first}
        named = typed.members(given, {"id": "", "object": kind, "created": 0})
        return to_event(named | {"model": self._model, "choices": [], "usage": usage})


def han_count_of(chunk: dict[str, Any]) -> int:
    """The Han characters of a chunk's choices."""
    return sum(
        han_count(text_of(choice.get("text")) or text_of(object_of(choice.get("delta")).get("content")))
        for choice in objects_of(chunk.get("choices"))
    )
