"""The documented proxy agrees with the service on the limit of a body and the envelope of errors."""

import re
from pathlib import Path

import msgspec

from myna.settings import Settings
from myna.wire.v1 import ErrorAnswer

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
NGINX = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]


def test_the_proxy_accepts_bodies_as_large_as_the_service_does() -> None:
    most, *uploads = re.findall(r"client_max_body_size (\d+)m;", NGINX)
    assert int(most) * 2**20 == Settings().body_max_bytes
    assert uploads and all(int(size) * 2**20 > Settings().upload_max_bytes for size in uploads)


def test_the_proxy_waits_longer_than_a_call_may_take() -> None:
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", NGINX)
    assert int(seconds) >= Settings().call_deadline_s + 10


def test_errors_of_the_proxy_itself_have_the_envelope() -> None:
    pages = re.findall(r"error_page (\d+) @(\d+);", NGINX)
    assert {"413", "502", "503", "504"} == {status for status, _ in pages}
    for status, place in pages:
        (found,) = re.findall(rf"location @{place} \{{(.*?)\n    \}}", NGINX, re.DOTALL)
        ((answered, body),) = re.findall(r"return (\d+) '(.*)';", found)
        error = msgspec.json.decode(body, type=ErrorAnswer).error
        assert answered == status == str(error.code)
        assert error.type in ("invalid_request_error", "server_error", "service_unavailable")
        assert "X-Request-Id" in found
