"""Audio URLs: they need no key and cannot be guessed."""

import itertools
import re
import urllib.parse

import pytest

from tests.conformance.audio_urls import fetch
from tests.conformance.caller import Caller, make_caller
from tests.rig.calls import Answer, Wire, call
from tests.rig.service import Service


@pytest.fixture(scope="module")
def url(service: Service) -> str:
    """The audio URL of a sentence just spoken."""
    address: str = make_caller(service).speak("你好，世界。Hello, world.").json["audio_url"]
    return address


def test_an_audio_url_is_absolute_unguessable_and_needs_no_key(service: Service, url: str) -> None:
    assert url.startswith(f"{service.root_url}/uploads/")
    name = url.rsplit("/", 1)[1].split(".")[0]
    assert re.search(r"[0-9a-f]{32}|[A-Za-z0-9_-]{22}", name), name
    answer = fetch(service, url)
    assert answer.status == 200
    assert answer.headers["content-type"] == "audio/mpeg"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert int(answer.headers["content-length"]) == len(answer.body) > 500


def test_head_has_the_whole_length_and_no_body(service: Service, url: str) -> None:
    whole = fetch(service, url)
    for headers in ({}, {"Range": "bytes=0-9"}):
        head = call("HEAD", url, headers=headers)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(whole.body))


def test_the_host_header_does_not_change_the_audio_url(caller: Caller) -> None:
    answer = caller.post(
        "/tts", {"text": "你好"}, headers={"Host": "evil.example", "X-Forwarded-Host": "evil"}
    )
    assert answer.json["audio_url"].startswith(f"{caller.service.root_url}/uploads/")


RANGES = {
    "bytes=0-99": slice(0, 100),
    "bytes=100-": slice(100, None),
    "bytes=-100": slice(-100, None),
    "bytes=0-0": slice(0, 1),
    "bytes=5-99999999": slice(5, None),
    "bytes=-99999999": slice(0, None),
}


def test_a_range_is_206_with_its_bytes(service: Service, url: str) -> None:
    whole = fetch(service, url).body
    for asked, wanted in RANGES.items():
        part, expected = fetch(service, url, Range=asked), whole[wanted]
        assert part.status == 206
        assert part.body == expected
        first = len(whole) - len(expected) if wanted.stop is None else 0
        assert part.headers["content-range"] == f"bytes {first}-{first + len(expected) - 1}/{len(whole)}"
        assert part.headers["content-type"] == "audio/mpeg"


def test_a_range_past_the_end_is_416(service: Service, url: str) -> None:
    length = len(fetch(service, url).body)
    for asked in ("bytes=99999999-", "bytes=99999999-999999999", "bytes=-0"):
        answer = fetch(service, url, Range=asked)
        assert answer.status == 416
        assert answer.headers["content-range"] == f"bytes */{length}"
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert f"{length} bytes" in answer.json["error"]["message"]


def test_an_invalid_or_multiple_range_gets_the_whole_file(service: Service, url: str) -> None:
    whole = fetch(service, url).body
    for asked in (
        *("", "bytes", "bytes=", "bytes=a-b", "bytes=5-1", "bytes=--5", "lines=0-5", "bytes=-", "0-5"),
        *("bytes=0-" + "9" * 5000, "bytes=0-1,5-6", "bytes=" + "0-1," * 1000 + "0-1", "bytes=0-99 100"),
    ):
        answer = fetch(service, url, Range=asked)
        assert (answer.status, answer.body) == (200, whole), asked[:20]


def test_a_range_of_another_version_gets_the_whole_file(service: Service, url: str) -> None:
    whole = fetch(service, url)
    for version in ('"another"', "W/" + whole.headers["etag"], "Mon, 01 Jan 2001 00:00:00 GMT"):
        assert fetch(service, url, **{"Range": "bytes=0-9", "If-Range": version}).status == 200
        assert fetch(service, url, **{"Range": "bytes=99999999-", "If-Range": version}).status == 200
    for version in (whole.headers["etag"], whole.headers["last-modified"]):
        assert fetch(service, url, **{"Range": "bytes=0-9", "If-Range": version}).body == whole.body[:10]


def test_a_file_is_immutable_for_caches(service: Service, url: str) -> None:
    first, again = fetch(service, url), fetch(service, url)
    assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert first.headers["etag"] == again.headers["etag"]
    assert re.fullmatch(r'"[^"]+"', first.headers["etag"])
    assert first.headers["last-modified"].endswith(" GMT")


def test_a_matching_condition_is_304(service: Service, url: str) -> None:
    first = fetch(service, url).headers
    conditions = [
        {"If-None-Match": first["etag"]},
        {"If-None-Match": f'"other", W/{first["etag"]}'},
        {"If-None-Match": "*"},
        {"If-Modified-Since": first["last-modified"]},
        {"If-Modified-Since": "Fri, 31 Dec 2100 00:00:00 GMT"},
        {"If-None-Match": first["etag"], "Range": "bytes=0-9"},
    ]
    for headers in conditions:
        for method in ("GET", "HEAD"):
            answer = call(method, url, headers=headers)
            assert (answer.status, answer.body) == (304, b""), headers
            assert answer.headers["etag"] == first["etag"]
            assert answer.headers["cache-control"] == first["cache-control"]


def test_a_condition_that_does_not_match_gets_the_whole_file(service: Service, url: str) -> None:
    first = fetch(service, url).headers
    conditions = [
        {"If-None-Match": '"other"'},
        {"If-None-Match": '"other"', "If-Modified-Since": first["last-modified"]},
        {"If-None-Match": first["etag"].strip('"')},
        *({"If-Modified-Since": date} for date in ("Mon, 01 Jan 2001 00:00:00 GMT", "yesterday", "", "0")),
        {"If-Modified-Since": "Mon, 01 Jan 0001 00:00:00 -0000"},
    ]
    for headers in conditions:
        assert fetch(service, url, **headers).status == 200, headers


def raw_get(service: Service, target: str) -> Answer:
    """Sends a GET with this path unchanged, also with dots."""
    with Wire(service.root_url) as wire:
        wire.head(f"GET {target} HTTP/1.1", "Connection: close")
        return wire.answer("GET")


def test_there_is_no_listing(service: Service, url: str) -> None:
    for target in ("/uploads", "/uploads/", "/uploads/.", "/uploads//", "/uploads/?list"):
        answer = raw_get(service, target)
        assert answer.status in (400, 404)
        assert url.rsplit("/", 1)[1].encode() not in answer.body
    path = urllib.parse.urlsplit(url).path
    while path.count("/") > 1:
        path = path.rsplit("/", 1)[0]
        assert raw_get(service, path + "/").status == 404


OUTSIDE = ["myna.db", "myna.sqlite3", "stderr", "stdout", "data", "etc/passwd"]
UPWARDS = ["../", "../../", "../../../../../../../../", "%2e%2e/", "..%2f", "%2e%2e%2f", "..%5c", "....//"]


def test_path_traversal_is_refused(service: Service, url: str) -> None:
    folder = urllib.parse.urlsplit(url).path.rsplit("/", 1)[0]
    files = [file.relative_to(service.folder) for file in (service.folder / "data").rglob("*")]
    names = [str(file) for file in files if file.is_file()] + OUTSIDE
    every = {*names, *(name.rsplit("/", 1)[-1] for name in names)}
    for name in sorted(name for name in every if not name.endswith(".mp3")):
        for start, upwards in itertools.product(("/uploads/", f"{folder}/"), UPWARDS):
            assert raw_get(service, start + upwards + name).status in (400, 404), start + upwards + name


def test_a_changed_audio_url_is_not_found(service: Service, url: str) -> None:
    changed = url.replace(".mp3", "") if ".mp3" in url else url + "x"
    other = url[:-5] + ("0" if url[-5] != "0" else "1") + url[-4:]
    for wrong in (changed, url[:-1], other, url + "/", url.upper()):
        target = urllib.parse.urlsplit(wrong).path.replace("/UPLOADS/", "/uploads/")
        assert raw_get(service, target).status == 404, wrong
