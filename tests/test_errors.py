"""Every error that a caller may get, and its answer.

The envelope of every answer that is no success:

    {"error": {"message": str, "type": str, "code": int}}

`code` is the HTTP status. `type` depends on it: 400, 405, 413, 415, 416 and 426 invalid_request_error, 401
authentication_error, 402 insufficient_quota, 404 not_found_error, 409 conflict_error, 500 upstream_error
where every channel failed and server_error for an internal error, 503 service_unavailable. `message` says
what to change, is one line, and is never empty. Headers: 401 has the scheme, 405 the methods, 416 the length,
426 the protocol, 503 Retry-After: at once, in a minute where the disk is full, and x-should-retry: false for
a text that is always too long. The connection is closed after a body that was refused unread.
"""

import shlex
from collections.abc import Iterator
from inspect import signature
from typing import Any

import msgspec
import pytest

from myna import errors
from myna.accounts import activity
from myna.accounts.activity import Actor, words
from myna.cli import build
from myna.errors import CommandError, MynaError
from myna.http.responses import envelope, public_error
from myna.store.database import Transaction
from myna.store.queries.accounts import activity_page
from tests.conformance.caller import ERROR_TYPES
from tests.store.books import Books
from tests.store.conftest import dialect as dialect

ARGUMENTS: dict[type[MynaError], tuple[Any, ...]] = {
    errors.MethodNotAllowed: ("PUT", "GET, POST"),
    errors.BodyTooLarge: (10,),
    errors.UnsupportedEncoding: ("gzip",),
    errors.BodyTooSlow: (1.5,),
    errors.RangeNotSatisfiable: (500,),
    errors.NodeTooOld: (7,),
    errors.RateLimited: ("m", {"Retry-After": "3"}),
}
"""Of the errors that need more than a message or nothing."""
HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    405: {"Allow": "GET, POST"},
    416: {"Content-Range": "bytes */500"},
    429: {"Retry-After": "3"},
    426: {"Upgrade": "myna-farm/7", "Connection": "upgrade"},
    503: {"Retry-After": "0"},
    errors.DiskFull: {"Retry-After": "60"},
    errors.TextTooLong: {"x-should-retry": "false"},
}


def made(kind: type[MynaError] = MynaError) -> Iterator[MynaError]:
    """One of each error of the tree."""
    if kind is errors.StreamFailed:
        yield errors.StreamFailed("the channel broke its stream", kept=False)
    else:
        needs_one = signature(kind).parameters and not kind.default
        yield kind(*ARGUMENTS.get(kind, ("m",) if needs_one else ()))
    for child in kind.__subclasses__():
        yield from made(child)


each_error = pytest.mark.parametrize("error", list(made()), ids=lambda error: type(error).__name__)


@each_error
def test_the_envelope_of_every_error(error: MynaError) -> None:
    answer = envelope(error)
    body = msgspec.json.decode(answer.body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "code"}
    assert body["error"]["code"] == answer.status == int(error.status)
    assert body["error"]["type"] in ERROR_TYPES[answer.status]
    assert body["error"]["message"].strip()
    assert body["error"]["message"].isprintable()
    assert dict(answer.headers or {}) == HEADERS.get(type(error), HEADERS.get(answer.status, {}))
    ends = (
        errors.BodyTooLarge
        | errors.UnsupportedEncoding
        | errors.BodyTooSlow
        | errors.TooManyBodies
        | errors.ShuttingDown
    )
    assert answer.close is isinstance(error, ends)


@each_error
def test_the_envelope_of_every_error_below_openai(error: MynaError) -> None:
    answer = envelope(error, "/openai/v1/chat/completions")
    body = msgspec.json.decode(answer.body)["error"]
    assert list(body) == ["message", "type", "param", "code"]
    assert body["message"] == error.message and body["code"] == error.code
    missing = isinstance(error, errors.ScopeMissing)
    assert answer.status == (403 if missing else int(error.status))


def test_a_failure_of_channels_has_its_own_status_and_type_below_openai_alone() -> None:
    error = errors.RequestRefused("m")
    error.openai_status, error.openai_type, error.field = 400, "BadRequestError", "messages"
    below = envelope(error, "/openai/v1/x")
    said = msgspec.json.decode(below.body)["error"]
    assert (below.status, said["type"], said["param"]) == (400, "BadRequestError", "messages")
    above = envelope(error, "/v1/x")
    assert (above.status, msgspec.json.decode(above.body)["error"]["type"]) == (500, "upstream_error")


def test_the_field_at_fault_is_the_param_of_a_bad_request() -> None:
    answer = envelope(errors.InvalidRequest("must be true.", field="stream_options.x"), "/openai/v1/x")
    assert msgspec.json.decode(answer.body)["error"]["param"] == "stream_options.x"
    answer = envelope(errors.InvalidRequest("The body is not valid JSON: it ends."), "/openai/v1/x")
    assert msgspec.json.decode(answer.body)["error"]["param"] is None


@pytest.mark.parametrize("refused", [errors.Overloaded, errors.NoSpeechChannel])
@pytest.mark.parametrize(
    ("wait_s", "header"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.01, "2"), (59.5, "60")]
)
def test_retry_after_is_in_whole_seconds_and_at_least_one(
    refused: type[errors.Unavailable], wait_s: float, header: str
) -> None:
    assert refused("m", wait_s).headers == {"Retry-After": header}


def test_only_an_error_of_the_tree_is_sent_as_it_is() -> None:
    error = errors.NotFound("nothing")
    assert public_error(error) is error
    for unhandled in (ValueError, errors.CommitInDoubt, errors.ConfigError, errors.CommandError):
        public = public_error(unhandled("postgresql://u:word@h/db"))
        assert isinstance(public, errors.InternalError)
        assert "word" not in public.message


ROOT = Actor(account_id=0, name="root", address="")


async def recorded(books: Books, actor: Actor, *command: str, account_id: int = 0) -> None:
    await books.db.transaction(lambda connection: activity.record(connection, actor, command, account_id))


async def test_a_change_has_its_time_its_actor_its_command_and_its_account(sqlite_books: Books) -> None:
    books = sqlite_books
    await books.stop_clock()
    ann = await books.customer()
    await recorded(
        books, Actor(7, "bob", "192.0.2.1"), "account", "grant", "a b", "5", account_id=ann.account_id
    )
    ((now,),) = await books.sql("SELECT now_ms()")
    row = (await activity_page(books.db))[0]
    assert (row.created_at, row.actor_id, row.actor, row.address) == (now, 7, "bob", "192.0.2.1")
    assert (row.command, row.account_id, row.account) == (
        "myna account grant 'a b' 5",
        ann.account_id,
        ann.name,
    )


async def test_a_change_that_is_rolled_back_leaves_no_row(books: Books) -> None:
    async def work(connection: Transaction) -> None:
        await activity.record(connection, ROOT, ["key", "revoke", "1"])
        raise CommandError("There is no key 1.")

    with pytest.raises(CommandError):
        await books.db.transaction(work)
    assert await activity_page(books.db, prefix="key") == []


async def test_changes_are_listed_newest_first_in_pages(sqlite_books: Books) -> None:
    books = sqlite_books
    for n in range(5):
        await recorded(books, ROOT, "node", "drain", str(n))
    first = await activity_page(books.db, limit=2, prefix="node")
    rest = await activity_page(books.db, limit=9, prefix="node", before=first[-1].id)
    assert [row.command[-1] for row in [*first, *rest]] == list("43210")


@pytest.mark.parametrize(
    ("name", "memo", "units"),
    [
        ("ann", "thanks", 5),
        ("-ann", "", -5),
        ("--json", "-1", 5),
        ("--", "--json", -5),
        ("a 'b' $c", "a\\b", 5),
        ("-5", "", 5),
    ],
)
async def test_words_parse_again_to_the_same_call(name: str, memo: str, units: int) -> None:
    line = shlex.join(words("account", "grant", name, units, memo=memo))
    _, bound, _ = build().parse_args(line, exit_on_error=False, print_error=False)
    assert build().parse_commands(line)[0] == ("account", "grant")
    assert {**bound.arguments} == {"name": name, "units": units, "memo": memo}


def test_options_without_a_value_are_left_out() -> None:
    assert words("a", "b", c=None, d=False, e=True, f=["x", "-y"], g_h=0) == [
        *("a", "b", "--e", "--f", "x", "--f=-y", "--g-h", "0")
    ]
