"""How the events of a stream look to the client: what is read of each, the last ones, and an error."""

from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from myna.channels import Channel
from myna.chat.han import han_count
from myna.errors import MynaError
from myna.http.responses import openai_error
from myna.relay.answers import event, usage_of
from myna.relay.events import Observer

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


class _Delta(Struct):
    content: Any = None


class _ChunkChoice(Struct):
    delta: _Delta | None = None
    text: Any = None


class _Chunk(Struct):
    id: Any = ""
    object: Any = "chat.completion.chunk"
    created: Any = 0
    model: Any = ""
    choices: list[_ChunkChoice] | None = None
    usage: Any = None


_chunk = msgspec.json.Decoder(_Chunk)


class Passed:
    """Chat completions as the channel sends them, with `[DONE]` at the end."""

    def observer_for(self, channel: Channel) -> Observer | None:
        return None

    def last(self) -> bytes:
        return DONE

    def failed(self, error: MynaError) -> bytes:
        return event(openai_error(error))


class WithUsage(Passed):
    """Chat completions with an event about the usage before the end: the channel's, else one in which Han
    characters are counted."""

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._begin()

    def _begin(self) -> None:
        self._completion_tokens = 0
        self._first: _Chunk | None = None
        self._is_sent = False

    def observer_for(self, channel: Channel) -> Observer:
        self._begin()  # a channel that failed has perhaps been read
        return self

    def feed(self, data: bytes) -> None:
        """Reads an event. Raises msgspec.DecodeError."""
        if self._is_sent:
            return
        chunk = _chunk.decode(data)
        self._first = self._first or chunk
        self._is_sent = chunk.usage is not None
        for choice in chunk.choices or []:
            text = choice.text or (choice.delta.content if choice.delta else None)
            self._completion_tokens += han_count(text) if isinstance(text, str) else 0

    def last(self) -> bytes:
        return DONE if self._is_sent else self._counted() + DONE

    def _counted(self) -> bytes:
        first = self._first or _Chunk()
        return event(
            {
                "id": first.id,
                "object": first.object,
                "created": first.created,
                "model": first.model,
                "choices": [],
                "usage": usage_of(self._prompt_tokens, self._completion_tokens),
            }
        )
