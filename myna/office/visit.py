"""One request of the back office, the parts of the service that it uses, and the responses of pages."""

import hashlib
import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import tzinfo
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from markupsafe import Markup
from msgspec import Struct
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from myna.accounts.activity import Actor
from myna.accounts.refusals import Refusals
from myna.accounts.sign_in.oidc.flow import Oidc
from myna.accounts.sign_in.sessions import Session
from myna.actions import Action, R, perform
from myna.channels.channels import Channels
from myna.config import ConfigCache
from myna.engines.media.media import Inspector
from myna.errors import CommandError, InvalidRequest, NotFound
from myna.errors.sentences import SentenceError
from myna.farm.nodes import Capacity
from myna.gateway.failover import ChannelClient
from myna.gateway.relay.plan import RelayPlanner
from myna.gateway.relay.relay import Relay
from myna.http.exchange import EXCHANGE, Exchange, ResponseStream
from myna.http.request_head import Receive, Scope, Send
from myna.lib.net import is_loopback, is_origin
from myna.lib.telemetry.requests import RequestDetails
from myna.lib.times import zone_of
from myna.office import forms
from myna.office.forms import FIELD, Result, Submission
from myna.office.model_fetching import ModelFetching
from myna.office.refill import Refill, refilled
from myna.office.render import N_, Renderer, date
from myna.office.web_security import NOTICE_COOKIE, Cookies
from myna.settings import Settings
from myna.speech.previews import Previews
from myna.speech.synthesize import Synthesizer
from myna.store.database import Database, Queries
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import FreeSpace
from myna.store.group_commit import GroupCommit
from myna.store.queries import config as config_store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.config import Config
from myna.store.queries.keys import KeyRow
from myna.store.rows import ID_MAX
from myna.store.transaction_queue import transactions_of


class Parts(Struct, frozen=True, kw_only=True):
    """What `app.py` hands to the back office."""

    settings: Settings
    environ: Mapping[str, str]
    db: Database
    config: ConfigCache
    channels: Channels
    capacity: Capacity
    relay: Relay
    """Streams the answer of a channel, with the headers of a page: see `pages/try_chat.py`."""
    relay_planner: RelayPlanner
    synthesizer: Synthesizer
    audio: AudioStore
    samples: SampleStore
    recordings: Inspector
    previews: Previews
    space: FreeSpace
    refusals: Refusals
    channel_client: ChannelClient
    commits: GroupCommit
    missing: Callable[[], Awaitable[dict[str, str]]]
    """Why chat and speech are unavailable; "" if available. Raises DatabaseUnavailable."""
    models: ModelFetching
    whisper_missing: Callable[[], Awaitable[str]]
    """Why the embedded Whisper can't transcribe; "" if it can."""
    oidc: Oidc | None
    """Sign-in at the provider of the settings, if there is one."""


F = TypeVar("F", bound=Struct)
P = ParamSpec("P")
T = TypeVar("T")

ROOT = "/office"
LANGUAGE = "lang"
"""The parameter of the sign-in page that names a language: nobody is signed in there who prefers one."""
FILLED_AGAIN = N_("This is the form as you filled it in. It was not sent yet.")
CALL_ID = re.compile(r"[0-9a-f]{32}")


class Streamed(Response):
    """The response of a request that was answered by a stream: nothing is left to send."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        return


class Visit:
    """A request with its session. Page functions take one and return a response."""

    def __init__(
        self, request: Request, parts: Parts, renderer: Renderer, cookies: Cookies, session: Session | None
    ) -> None:
        self.request = request
        self.parts = parts
        self.renderer = renderer
        self.cookies = cookies
        self.session = session
        self.new_token = ""  # the session's token, if this request replaced it
        self.form = FormData()
        self.submission: Submission | None = None
        self.refill: Refill | None = None  # the form that the page is to be filled with
        self._error: SentenceError | None = None
        self._once_seed = secrets.token_hex(32)
        self.now_ms = time.time_ns() // 10**6

    @property
    def exchange(self) -> Exchange:
        """What the server knows of the request, and its response."""
        found: Exchange = self.request.scope[EXCHANGE]
        return found

    @property
    def details(self) -> RequestDetails:
        """What the access log says of the request."""
        return self.exchange.details

    @property
    def db(self) -> Database:
        """The database. The function of a form gets the one that makes a change once: see `Submission`."""
        return self.submission.db if self.submission else self.parts.db

    @property
    def time_zone(self) -> str:
        """The name of the site's reporting time zone."""
        return self.parts.config.settings.time_zone

    @property
    def zone(self) -> tzinfo:
        """The site's reporting time zone."""
        return zone_of(self.time_zone)

    def date(self, at_ms: int, *, seconds: bool = False) -> str:
        """A time in the reporting zone."""
        return date(at_ms, self.zone, seconds=seconds)

    @property
    def signed_in(self) -> Session:
        """The session. Pages for accounts always have one."""
        if self.session is None:
            raise AssertionError("a page without sign-in asked for the session")
        return self.session

    @property
    def account(self) -> AccountRow:
        """The account that is signed in."""
        return self.signed_in.account

    @property
    def base_url(self) -> str:
        """The address of the site for people and their programs. Where MYNA_PUBLIC_URL does not name one, it
        is the one that this browser uses: the service knows only where it listens."""
        settings, used = self.parts.settings, f"http://{self.request.headers.get('host', '')}"
        return used if not settings.public_url and is_origin(used) else settings.base_url

    @property
    def address(self) -> str:
        """The client's network address."""
        return self.request.client.host if self.request.client else ""

    @property
    def owner(self) -> str:
        """Whose transactions and queries those of this request are."""
        return f"account {self.session.account.id}" if self.session else f"address {self.address}"

    @property
    def user_agent(self) -> str:
        return self.request.headers.get("user-agent", "")

    @property
    def actor(self) -> Actor:
        """Who changes something, for the activity log."""
        return Actor(account_id=self.account.id, name=self.account.name, address=self.address)

    def stream(self) -> ResponseStream:
        """The response as a stream, of which nothing is sent yet. Call it once. A page whose response was
        streamed returns `Streamed`."""
        return self.exchange.stream()

    async def disconnected(self) -> None:
        """Returns when the client has disconnected."""
        await self.exchange.disconnected()

    async def read(
        self, query: Callable[Concatenate[Queries, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a query on the reader for pages, under its time limit, in turn with other owners."""
        with transactions_of(self.owner):
            return await self.db.read(lambda queries: query(queries, *args, **kwargs))

    async def config(self) -> Config:
        """The current configuration, with the voices that compute nodes offer now."""
        await self.parts.config.at(await self.read(config_store.version))
        return await self.parts.config.with_nodes()

    def parameter(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query_params.get(name, default)

    def number(self, name: str) -> int:
        """A number of the path. Raises NotFound for a number that no row can have."""
        value = int(self.request.path_params[name])
        if value >= 2**63:
            raise NotFound("There is no such page.")
        return value

    def row_id(self, name: str) -> int:
        """An id of the query; above every id without one. Raises InvalidRequest."""
        text = self.parameter(name) or str(ID_MAX)
        if not text.isascii() or not text.isdecimal() or int(text[:20]) > ID_MAX:
            raise InvalidRequest("{name}: must be an id of the list.", name=name)
        return int(text)

    def call_id(self) -> bytes:
        """The id of a call in the path. Raises NotFound for what is no id."""
        text = str(self.request.path_params["id"])
        if not CALL_ID.fullmatch(text):
            raise NotFound("There is no such call.")
        return bytes.fromhex(text)

    def typed(self, name: str) -> str:
        """What was typed into a field of the form, "" for nothing."""
        value = self.form.get(name)
        return value.strip() if isinstance(value, str) else ""

    def fields(self, kind: type[F], /, **given: object) -> F:
        """The fields of the form, with those that the form does not decide. Raises InvalidRequest."""
        return forms.convert(self.form, kind, given)

    async def perform(self, action: Action[R], *, own: bool = False) -> R:
        """Makes a change as the account that is signed in; `own`: of its own things alone. Raises
        CommandError."""
        return await perform(
            self.db,
            action,
            by=self.actor,
            settings=self.parts.settings,
            channels=self.parts.channels,
            owner_id=self.account.id if own else None,
        )

    def confirm(self, name: str) -> None:
        """Raises CommandError unless this name was typed, which confirms a loss."""
        if self.typed("typed") != name.strip():
            raise CommandError("Type the name to confirm: {name}", field="typed", name=name)

    async def claim(self) -> None:
        """Records that this form makes its change, before a change that is no transaction."""
        if self.submission:
            await self.submission.claim_now()

    def text(self, message: str) -> str:
        """The message in the language of the page."""
        return self.renderer.text(message)

    def counted(self, one: str, many: str, number: int, **values: object) -> str:
        """The message for this number, with it in the place of `{count}`."""
        return self.renderer.plural(one, many, number).format(**{"count": f"{number:,}", **values})

    def said(self, error: SentenceError) -> str:
        """The sentence of an error in the language of the page."""
        self._error = error
        return self.renderer.said(error)

    def key_name(self, key: KeyRow) -> str:
        """The name of a key; that of the page Try in the language of the page."""
        return self.text(key.name) if key.internal else key.name

    def said_of(self, failure: Exception) -> str:
        """The sentence of an exception, translated if it is one of ours."""
        return self.renderer.said(failure) if isinstance(failure, SentenceError) else str(failure)

    def page(self, template: str, *, status: int = 200, **context: object) -> Response:
        """The page of a template, with the status 400 for an `error`. Each has `account`, `session`, `path`,
        `zone` and `notice`. The page of a refused form is filled with what was typed, and says beside the
        field what is wrong."""
        notice = unquote(self.cookies.get(self.request, NOTICE_COOKIE))
        values = {"notice": notice, **context}
        html, path, refill = None, self.request.url.path, self.refill
        if (said := context.get("error")) and status == 200:
            status = 400
            refill = Refill(path, self.form, str(said), self._error) if self.form else refill
        if refill:
            if not refill.said:
                values["notice"] = notice or self.text(FILLED_AGAIN)
            html = refilled(self._html(template, {**values, "error": ""}), path, refill)
            status = 400 if html and refill.said else status
        response = HTMLResponse(html or self._html(template, values), status)
        if notice:
            self.cookies.delete(response, NOTICE_COOKIE)
        return response

    def part(self, template: str, **context: object) -> Markup:
        """The block `live` of a template."""
        return Markup(self._html(template, context, "live"))  # noqa: S704  of a template with autoescape

    def _html(self, template: str, context: Mapping[str, object], block: str = "") -> str:
        """The HTML of a template, or of a block of it, with what all templates have. `once_field()` is the
        hidden field that each form needs. Its values are those of this visit, so that a part that is rendered
        again is the same."""
        numbers = itertools.count()

        def once_field() -> Markup:
            value = hashlib.sha256(f"{self._once_seed} {template} {next(numbers)}".encode()).hexdigest()
            return Markup('<input type="hidden" name="{}" value="{}" autocomplete="off">').format(
                FIELD, value
            )

        shared: Mapping[str, object] = {
            "account": self.session.account if self.session else None,
            "session": self.session,
            "path": self.request.url.path.removeprefix(ROOT),
            "zone": self.zone,
            "once_field": once_field,
            "on_loopback": is_loopback(self.base_url),
            "notice": "",
            "error": "",
            "is_first": not self.parameter("before"),
        }
        return self.renderer.page(template, {**shared, **context}, block)

    def result(self, path: str, page: Response) -> Response:
        """The page of what a form did, such as a new key, to be shown once at this address below /office. A
        page that refuses the form is returned as it is."""
        return page if page.status_code >= 400 else Result(path, page)

    def redirect(self, path: str, notice: str = "", **values: object) -> Response:
        """A redirect to a page below /office, which shows the notice with these values once."""
        response = RedirectResponse(ROOT + path, 303)
        if notice:
            text = self.text(notice).format(**values) if values else self.text(notice)
            self.cookies.set(response, NOTICE_COOKIE, quote(text[:500]))
        return response
