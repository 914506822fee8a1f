"""What is written in one turn of the event loop leaves together, at the turn's end.

A program that computes and sends by turns wakes a reader for each write: one on the same machine finds little
and sleeps again, and to wake it costs more than the write. Sent right after one another, most writes find it
awake. An answer's head and its body leave as one packet, too.
"""

import asyncio

LARGE_BYTES = 64 * 1024
"""Held bytes of one connection from which on they leave at once: what streams a file must feel when its
reader is slower."""


class Turn:
    """The outlets that hold something. Belongs to one event loop."""

    def __init__(self) -> None:
        self._holding: list[Outlet] = []

    def holds(self, outlet: "Outlet") -> None:
        """To be emptied at the end of this turn."""
        if not self._holding:
            asyncio.get_running_loop().call_soon(self._end)
        self._holding.append(outlet)

    def _end(self) -> None:
        holding, self._holding = self._holding, []
        for outlet in holding:
            try:
                outlet.flush()
            except Exception as error:  # of this one; the others' bytes leave all the same
                told = {"message": "an outlet failed", "exception": error, "transport": outlet}
                asyncio.get_running_loop().call_exception_handler(told)
                outlet.drop()


class Outlet(asyncio.Transport):
    """A transport whose writes wait for the end of the turn, with what uvicorn and `outbound` ask of one."""

    def __init__(self, transport: asyncio.Transport, turn: Turn) -> None:
        self._transport, self._turn = transport, turn
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.is_closing = transport.is_closing  # type: ignore[method-assign]  # asked for each request
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]

    @property
    def unsent(self) -> bool:
        """Something was written in this turn and hasn't left yet."""
        return bool(self._held)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._transport.is_closing():
            return
        if not self._held:
            self._turn.holds(self)
        self._held.append(bytes(data))
        self._held_bytes += len(data)
        if self._held_bytes >= LARGE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends what is held. On a connection that is going it stays unsent."""
        if self._held and not self._transport.is_closing():
            held, self._held, self._held_bytes = self._held, [], 0
            self._transport.writelines(held)

    def drop(self) -> None:
        """Ends the connection at once; what is held never leaves."""
        self._held, self._held_bytes = [], 0
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return self._held_bytes + self._transport.get_write_buffer_size()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self.flush()
        self._transport.abort()
