"""Flow control of a response that is passed on while it arrives."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from myna.http.client.connection import ClientConnection


class Flow:
    """Pauses the reading of one response: the server then waits once the socket's buffers are full. The time
    of a pause doesn't count as silence of the server."""

    def __init__(self) -> None:
        self._connection: ClientConnection | None = None
        self.paused = False

    def pause(self) -> None:
        if not self.paused:
            self.paused = True
            if self._connection is not None:
                self._connection.pause()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            if self._connection is not None:
                self._connection.resume()

    def attach(self, connection: "ClientConnection") -> None:
        """The response arrives on this connection."""
        self._connection = connection
        if self.paused:
            connection.pause()

    def detach(self) -> None:
        """The response has arrived, or failed."""
        if self._connection is not None and self.paused:
            self._connection.resume()
        self._connection = None
