"""Coalesces all writes of one event loop iteration into one write per connection.

A process that alternates between computing and sending wakes the reader for each write. A reader on the same
machine finds little and sleeps again, and waking it costs more than the write. Most writes sent right after
one another find the reader awake. The head and the body of a response also share one packet.
"""

import asyncio

LARGE_BYTES = 64 * 1024
"""Buffered bytes of one connection above which they are sent at once, so that a streamed file is subject to
the transport's flow control."""


class FlushQueue:
    """The write buffers that are not empty. Belongs to one event loop."""

    def __init__(self) -> None:
        self._buffers: list[WriteBuffer] = []

    def add(self, buffer: "WriteBuffer") -> None:
        """Flushes the buffer at the end of this event loop iteration."""
        if not self._buffers:
            asyncio.get_running_loop().call_soon(self._flush_all)
        self._buffers.append(buffer)

    def _flush_all(self) -> None:
        buffers, self._buffers = self._buffers, []
        for buffer in buffers:
            try:
                buffer.flush()
            except Exception as error:  # the other buffers are still flushed
                context = {"message": "a write buffer failed", "exception": error, "transport": buffer}
                asyncio.get_running_loop().call_exception_handler(context)
                buffer.abort()


class WriteBuffer(asyncio.Transport):
    """Buffers writes until the end of the event loop iteration. Has the methods of a transport that uvicorn
    and `http_client` use."""

    def __init__(self, transport: asyncio.Transport, queue: FlushQueue) -> None:
        self._transport = transport
        self._queue = queue
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.is_closing = transport.is_closing  # type: ignore[method-assign]  # called for each request
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]

    @property
    def unsent(self) -> bool:
        """True if a write of this iteration has not been flushed."""
        return bool(self._pending)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closing():
            return
        if not self._pending:
            self._queue.add(self)
        self._pending.append(bytes(data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= LARGE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Passes the buffered data to the transport. On a closing transport it stays unsent."""
        if self._pending and not self.is_closing():
            pending, self._pending, self._pending_bytes = self._pending, [], 0
            self._transport.writelines(pending)

    def get_write_buffer_size(self) -> int:
        return self._pending_bytes + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Sends the buffered data, then closes the connection."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection immediately. Buffered data is lost."""
        self._pending = []
        self._pending_bytes = 0
        self._transport.abort()

    def flush_and_abort(self) -> None:
        """Closes the connection immediately. Buffered data is sent as far as the socket takes it now."""
        self.flush()
        self._transport.abort()
