"""Answers leave in one piece."""

import asyncio


class Joined:
    """What a request's cycle writes to: two writes of one turn of the event loop leave as one.

    So the head of an answer and its body are one system call, one packet and one wake-up of who waits for it.
    A write that stays alone leaves at the end of the turn.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: bytes | None = None

    def write(self, data: bytes) -> None:
        if self._held is None:
            self._held = data
            self._loop.call_soon(self._let_go)
        else:
            held, self._held = self._held, None
            self._transport.writelines((held, data))

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._transport.write(held)
