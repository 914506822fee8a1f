"""A server with OpenAI's POST /audio/transcriptions on a real socket. It answers as the test says."""

from dataclasses import dataclass
from email import message_from_bytes

from tests.rig.http_server import Exchange, LoopbackServer

SECRET = "sk-upstream-secret"


@dataclass(frozen=True)
class Received:
    """A request as it arrived; the form's values by name, the file's too."""

    path: str
    authorization: str
    fields: dict[str, bytes]
    file_name: str


class TranscriptionUpstream(LoopbackServer):
    """`status`, `media_type` and `content` are the answer. With `cut` the connection is closed without one;
    with `hang` it stays open, and `abandoned` counts the clients that close it."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"{self.root}/v1"
        self.forget()

    def forget(self) -> None:
        """As it was made, without a request."""
        self.status, self.media_type, self.content = 200, "application/json", b'{"text":"heard elsewhere"}'
        self.cut = self.hang = False
        self.abandoned = 0
        self.received: list[Received] = []

    def answer(self, exchange: Exchange) -> None:
        self.received.append(received(exchange))
        if self.hang:
            exchange.connection.recv(1)
            self.abandoned += 1
        if self.cut or self.hang:
            exchange.disconnect()
            return
        exchange.send(self.status, self.content, self.media_type)


def received(exchange: Exchange) -> Received:
    head = f"Content-Type: {exchange.headers['content-type']}\r\n\r\n".encode()
    form = message_from_bytes(head + exchange.body())
    assert form.is_multipart()
    fields: dict[str, bytes] = {}
    file_name = ""
    for part in form.get_payload():
        assert not isinstance(part, str)
        name = str(part.get_param("name", header="content-disposition"))
        fields[name] = bytes(part.get_payload(decode=True) or b"")
        file_name = part.get_filename() or file_name
    return Received(exchange.path, exchange.headers.get("authorization", ""), fields, file_name)
