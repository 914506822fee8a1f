"""The likely cause why a channel does not work, as its operator is told."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from myna.channel_causes import likely_cause, wrong_url
from myna.channels import Channel
from myna.http_client import HttpClient

pytestmark = pytest.mark.anyio

KEY = "a-key-of-the-operators"
MODELS = ["llama3.2:latest", "qwen3", *(f"model-{number}" for number in range(200))]


class _Server(BaseHTTPRequestHandler):
    """Lists its models below /v1 to those who have the key."""

    def do_GET(self) -> None:
        status, body = 200, {"object": "list", "data": [{"id": name} for name in MODELS]}
        if self.path != "/v1/models":
            status, body = 404, {"detail": "Not Found"}
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            said = f"Incorrect API key provided: {self.headers['Authorization']}.\nSee our page."
            status, body = 401, {"error": {"message": said, "type": "invalid_request_error"}}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


async def cause(url: str, model: str = "qwen3", key: str = KEY, *, refused: bool = False) -> str:
    client = HttpClient(connections_max=1)
    try:
        channel = Channel(kind="chat", name="up", url=url, model=model, key=key)
        return str(await likely_cause(client, channel, refused=refused) or "")
    finally:
        await client.close()


@pytest.mark.parametrize("model", ["qwen3", "model-199", "llama3.2", "llama3.2:latest", ""])
async def test_a_channel_without_a_mistake_has_no_cause(root: str, model: str) -> None:
    assert await cause(f"{root}/v1", model) == "" == await cause(f"{root}/v1/", model)


@pytest.mark.parametrize("endpoint", ["/chat/completions", "/models", "/audio/speech", "/embeddings"])
async def test_an_endpoint_in_the_base_url_is_named(root: str, endpoint: str) -> None:
    said = await cause(f"{root}/v1{endpoint}/")
    assert (
        said
        == f"Its base URL ends in an endpoint, {endpoint}: use {root}/v1."
        == str(wrong_url(f"{root}/v1{endpoint}"))
    )
    assert wrong_url(f"{root}/models") is None


async def test_a_missing_v1_is_named(root: str) -> None:
    for key in (KEY, ""):
        assert await cause(root, key=key) == f"Its base URL lacks /v1: use {root}/v1."
    assert await cause(f"{root}/elsewhere") == await cause(f"{root}/v2", refused=True) == ""
    assert (
        await cause(f"{root}/elsewhere", refused=True) == f"Its base URL lacks /v1: use {root}/elsewhere/v1."
    )


async def test_a_refused_key_is_named_with_the_servers_sentence_and_without_the_key(root: str) -> None:
    said = await cause(f"{root}/v1", key="wrong-key")
    assert said == "Its server refuses the key: Incorrect API key provided: Bearer ***. See our page."
    assert (await cause(f"{root}/v1", key="")).startswith("Its server asks for a key")


async def test_a_model_that_is_not_listed_is_named_with_those_that_are(root: str) -> None:
    said = await cause(f"{root}/v1", "qwen4")
    assert said.startswith("Its server does not list the model 'qwen4'; it lists llama3.2:latest, qwen3, ")
    assert said.endswith("model-7, … (192).")
    assert "llama3.2:latest" in await cause(f"{root}/v1", "", refused=True)


async def test_a_server_that_does_not_answer_has_no_cause() -> None:
    assert await cause("http://127.0.0.1:1/v1") == await cause("parrot:") == ""
