"""What a failure of a channel means: what the caller is told, whether it counts for the channel's circuit,
whether another channel may be tried, and whether a retry can help.

Servers refuse the same request with different statuses, codes and sentences. They are read here and nowhere
else: `BY_KIND` for a request without a response and for an answer that can't be used, `_RULES` for an error
that the server sent.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec import Raw, Struct

from myna.errors import NO_RETRY, MynaError, Overloaded, RequestRefused, UpstreamFailed, sentences
from myna.wire.body import has_too_many_containers
from myna.wire.lenient import UNREADABLE, count_of, is_set, loads, object_of, objects_of, text_of

_READ_MAX_BYTES: Final = 64 * 1024
_FULL_WAIT_S: Final = 1
_SHOWN_MAX_CHARS: Final = 500
_LINE: Final = re.compile(rb"[^<{\[\r\n\x80-\xff][^<\r\n\x80-\xff]{0,500}\n?")
_RETRY: Final = re.compile(r"(?:retry|try again) (?:in|after) (\d{1,6}(?:\.\d{1,6})?) ?s", re.IGNORECASE)


class Meaning(NamedTuple):
    """`status` and `code` are for /openai/v1; the status of /v1 is 500. `counts`: for the circuit.
    `elsewhere`: another channel may be tried. `retry`: the same request may get another answer."""

    name: str
    status: int
    code: str | None
    counts: bool
    elsewhere: bool
    retry: bool
    sentence: str


# fmt: off
MEANINGS: Final = [Meaning(*row) for row in (
    # name           status  code                       counts elsewhere retry  the caller is told
    ("too long",       400, "context_length_exceeded",  False, True,  False, sentences.REFUSED),
    ("forbidden",      400, "content_policy_violation", False, True,  False, sentences.REFUSED),
    ("unsupported",    400, "unsupported_value",        False, True,  False, sentences.REFUSED),
    ("refused",        400, None,                       False, True,  False, sentences.REFUSED),
    ("large answer",   500, None,                       False, True,  False, sentences.LARGE_ANSWER),
    ("busy",           429, "rate_limit_exceeded",      True,  True,  True,  sentences.CHANNELS_BUSY),
    ("full",           503, None,                       False, True,  True,  sentences.CHANNELS_FULL),
    ("no file",        503, None,                       False, False, True,  sentences.OUT_OF_FILES),
    ("slow",           504, "timeout",                  True,  True,  False, sentences.CHANNELS_SLOW),
    ("empty, caused",  500, None,                       False, False, False, sentences.EMPTY_ANSWER),
    ("unknown model",  404, "model_not_found",          False, True,  False, sentences.MODEL_UNKNOWN),
    ("empty",          500, None,                       False, True,  True,  sentences.EMPTY_ANSWER),
    ("failed",         500, None,                       True,  True,  True,  sentences.ALL_FAILED),
    ("no quota",       429, "rate_limit_exceeded",      True,  True,  False, sentences.NO_QUOTA),
    ("no access",      500, None,                       True,  True,  False, sentences.NO_ACCESS),
    ("not offered",    500, None,                       False, True,  False, sentences.NOT_OFFERED),
)]
# fmt: on
"""The first of them tells the caller most, and is what the caller gets where channels failed differently.
About those after "failed" only the operator can do something."""
(
    TOO_LONG, FORBIDDEN, UNSUPPORTED, REFUSED, LARGE_ANSWER, BUSY, FULL, NO_FILE, SLOW, EMPTY_CAUSED,
    UNKNOWN_MODEL, EMPTY, FAILED, NO_QUOTA, NO_ACCESS, NOT_OFFERED,
) = MEANINGS  # fmt: skip

_OPENAI_TYPES: Final = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}
"""The type of an error below /openai/v1, by its status."""
BY_KIND: Final[Mapping[str, Meaning]] = {
    "OutOfFiles": NO_FILE,
    "ChannelFull": FULL,
    "TimedOut": SLOW,
    "IdleTimedOut": SLOW,
    "AnswerTooLarge": LARGE_ANSWER,
    "LargeAnswer": LARGE_ANSWER,
    "LargeToolCalls": LARGE_ANSWER,
    "LongEvent": LARGE_ANSWER,
    "EmptyAnswer": EMPTY,
}
"""By the kind of a failed attempt; FAILED for all others."""


class _Rule(NamedTuple):
    """Errors of one meaning: with one of the statuses and, if these are given, a code or type with one of the
    `words` or a message with one of the `phrases`."""

    meaning: Meaning
    statuses: frozenset[int]
    words: re.Pattern[str] | None = None
    phrases: re.Pattern[str] | None = None


def _rule(meaning: Meaning, *statuses: int, words: str = "", phrases: str = "") -> _Rule:
    word, phrase = (re.compile(text, re.IGNORECASE) if text else None for text in (words, phrases))
    return _Rule(meaning, frozenset(statuses), word, phrase)


_RULES: Final = (
    _rule(
        TOO_LONG, 400, 413, 422, 500,
        words=r"context_length|context_size|context_window|tokens_limit_reached",
        phrases=r"maximum (context|model|prompt) length|(prompt|input) is too long|input token count"
        r"|exceed(s|ed)? [^.]{0,40}(context|token limit)"
        r"|context (length|size|window)[^.]{0,40}(exceed|of only|is only)"
        r"|(longer|larger|greater) than [^.]{0,40}context|max_(new|total)_tokens\W{1,3}must be"
        r"|too many tokens|range of input length|prompt ?超长|输入.{0,6}(过长|超长)",
    ),
    _rule(FORBIDDEN, 451),
    _rule(
        FORBIDDEN, 400, 403, 422, 500,
        words=r"content_?(filter|policy)|moderation|responsible_?ai|data_?inspection|safety",
        phrases=r"content[ _-](filter|polic|management|moderation|safety)|(usage|safety) polic|moderation"
        r"|flagged|inappropriate|(?<!case[ -])sensitive|harmful|safety system|(exists|high) risk"
        r"|敏感|违规|审核",
    ),
    _rule(NO_QUOTA, 402),
    _rule(BUSY, 429, phrases=r"(retry|try again) in \d"),  # Gemini calls each limit a quota
    _rule(
        NO_QUOTA, 400, 403, 429, 500,
        words=r"insufficient_?(quota|balance|credit)|exceeded_current_quota|billing|arrear|overdue",
        phrases=r"insufficient (balance|credit|quota|funds)|exceeded your current quota|credit balance"
        r"|overdue balance|余额不足|欠费",
    ),
    _rule(
        UNSUPPORTED, 400, 404, 422, 500, 501,
        phrases=r"(image|audio|video|vision|file|multimodal)\b[^.]{0,40}not (be )?support"
        r"|(not|n't) support[^.]{0,30} (image|audio|video|vision|file|multimodal)"
        r"|required for (image|audio|video) input|no endpoints [^.]{0,30}support (image|audio|video|file)"
        r"|at most 0 (image|audio|video)|not a multimodal model|unknown variant .image_url"
        r"|not support (tools|function call|tool use)",
    ),
    _rule(
        UNKNOWN_MODEL, 400, 403, 404,
        words=r"model_?not_?(found|exist)|invalid_?model|unknown_?model",
        phrases=r"model\b[^.]{0,120}(does not exist|not exist|not found)|(unknown|no such) model",
    ),
    _rule(NO_ACCESS, 401, 403, 407),
    _rule(
        NO_ACCESS, 400, words=r"api_?key",
        phrases=r"(invalid|incorrect) api key|api key not valid|user location is not supported",
    ),
    _rule(SLOW, 408, 504, 524),
    _rule(BUSY, 429),
    _rule(BUSY, 500, words=r"rate_?limit"),  # of an event: OpenAI's type is what the limit counts
    _rule(UNKNOWN_MODEL, 404),
    _rule(NOT_OFFERED, 405, 410, 501),
    _rule(REFUSED, 400, 406, 411, 413, 414, 415, 416, 422, 431),
)  # fmt: skip
"""The first that fits counts; FAILED if none does."""


class ServerError(Struct, frozen=True):
    """An error as a server sent it: texts are empty if it gave none. Not to be shown to a caller: see
    `sanitized`."""

    status: int
    code: str = ""
    type: str = ""
    param: str = ""
    message: str = ""

    def meaning(self, *, model_is_callers: bool) -> Meaning:
        """`model_is_callers`: the caller chose the model, so the server need not have it."""
        words = f"{self.code} {self.type}"
        for rule in _RULES:
            if self.status in rule.statuses and (
                (rule.words is None and rule.phrases is None)
                or (rule.words is not None and rule.words.search(words))
                or (rule.phrases is not None and rule.phrases.search(self.message))
            ):
                of_operator = rule.meaning is UNKNOWN_MODEL and not model_is_callers
                return NOT_OFFERED if of_operator else rule.meaning
        return FAILED


NO_ERROR: Final = ServerError(0)
NULL: Final = Raw(b"null")
"""Of an absent member, which `reports_error` does not decode."""
ERROR_MEMBERS: Final = (b'"error"', b'"base_resp"')
"""The members of `reports_error`, of which an event of a stream that reports an error has one."""
ERROR_EVENTS: Final = (b"error", b"response.failed")
"""The names of events that report an error."""
_STATUSES: Final = {
    400: ("invalid_request_error", "BadRequestError", "1042", "2013"),
    401: ("1004", "2049"),
    402: ("1008", "2056"),
    403: ("2061",),
    429: ("rate_limit_error", "1002", "1039", "1041", "2045"),
    451: ("1026", "1027"),
    504: ("1001",),
}
"""The types of errors, and MiniMax's codes, that stand for a status in an answer with the status 200. Source
of the codes: MiniMax's "Error Codes", and the schema of its chat completions, where 1039 is a limit of tokens
per minute."""


def is_error(error: Any) -> bool:
    """Whether a member `error`, decoded or not, reports one: not if it or all its members are null, 0 or
    empty."""
    if error is NULL or not is_set(error):
        return False
    found = loads(bytes(error)) if isinstance(error, Raw) else error
    return not isinstance(found, dict) or any(found.values())


def reports_error(members: Mapping[str, Raw]) -> bool:
    """Whether an answer with the status 200, or an event of a stream, with these members reports an error:
    in `error`, as an object of the kind "error" (vLLM), or in `base_resp` (MiniMax), whose code of a success
    is 0."""
    base_resp = members.get("base_resp", NULL)
    if is_error(members.get("error", NULL)) or bytes(members.get("object", NULL)) == b'"error"':
        return True
    return base_resp is not NULL and bool(count_of(object_of(loads(bytes(base_resp))).get("status_code")))


def choice_reports_error(finish_reason: Any, error: Any) -> bool:
    """Whether a choice with these members reports an error (OpenRouter)."""
    return finish_reason == "error" or is_error(error)


def read(status: int, body: bytes) -> ServerError:
    """The error in a body: OpenAI's, or that of vLLM, llama.cpp, FastAPI, Mistral, Ollama, Gemini or MiniMax,
    of an event of POST /responses, or a line of text. An error in an answer with the status 200 may have its
    own status as its code."""
    try:
        found = loads(body) if len(body) <= _READ_MAX_BYTES and not has_too_many_containers(body) else None
    except UNREADABLE:
        found = {"error": body.decode()} if status != 200 and _LINE.fullmatch(body) else None
    if isinstance(found, list):
        found = found[0] if found else None
    outer = object_of(found)
    of_response = object_of(outer.get("response")).get("error")
    of_fastapi = object_of(outer.get("detail"))
    inner = outer.get("error") or of_response or outer.get("base_resp") or of_fastapi or outer
    error = object_of(inner)
    detail = outer.get("detail") or object_of(error.get("message")).get("detail")
    details = objects_of(detail)  # of each field
    message = text_of(inner) or text_of(error.get("message")) or text_of(detail)
    message = message or text_of(error.get("status_msg"))
    steps = details[0].get("loc") if details else None
    place = ".".join(str(step) for step in steps if step != "body") if isinstance(steps, list) else ""
    code = error.get("code")
    if status == 200:
        own = count_of(code) or count_of(error.get("status")) or 0
        named = str(error.get("type") or error.get("status_code"))
        by_name = next((status for status, names in _STATUSES.items() if named in names), 500)
        status = own if 400 <= own <= 599 else by_name
    return ServerError(
        status=status,
        code=text_of(code),
        type=text_of(error.get("type")),
        param=text_of(error.get("param")) or place,
        message=message or "; ".join(f"{place}: {text_of(each.get('msg'))}" for each in details[:1]),
    )


def error_of(
    meaning: Meaning,
    *,
    public_error: ServerError = NO_ERROR,
    waits: Sequence[int | None] = (),
    limit_bytes: int = 0,
    sentence: str = "",
) -> MynaError:
    """The error for the caller, with the server's `public_error` if it is about the request. `waits` are the
    Retry-After of all channels, `limit_bytes` is that of an answer that was too large. `sentence` replaces
    the meaning's."""
    sentence = sentence or meaning.sentence
    if meaning.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Overloaded(sentence, _FULL_WAIT_S)
    if meaning.sentence != sentences.REFUSED:
        public_error = NO_ERROR
    error: UpstreamFailed
    code = meaning.code if meaning is TOO_LONG else public_error.code or meaning.code
    if message := public_error.message:
        end = "" if message.endswith((".", "!", "?", "。")) else "."
        error = RequestRefused(sentences.REFUSED_SAYING, said=message + end)
    elif meaning.status == HTTPStatus.BAD_REQUEST and code:
        error = RequestRefused(sentences.REFUSED_CODE, code=code)
    elif meaning.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
        error = RequestRefused(sentence)
    elif meaning is LARGE_ANSWER and limit_bytes:
        error = UpstreamFailed(sentences.LARGER_ANSWER, limit_bytes=limit_bytes)
    else:
        error = UpstreamFailed(sentence)
    error.code = code
    error.openai_status = meaning.status
    error.openai_type = public_error.type or _OPENAI_TYPES.get(meaning.status, "")
    error.field = public_error.param or ("model" if meaning is UNKNOWN_MODEL else "")
    given = [wait for wait in waits if wait is not None]
    if not meaning.retry:
        error.headers = NO_RETRY
    elif given and meaning is BUSY:
        error.headers = {"Retry-After": str(min(given))}
    return error


_WORD: Final = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")
_SERVER: Final = re.compile(
    r"://|\\|\b\d{1,3}(?:\.\d{1,3}){3}\b|[0-9a-f]*(?:::?[0-9a-f]{1,4}){3,}|:\d{2,5}\b"
    r"|\blocalhost\b|\.(?:internal|local|localdomain|lan|corp|intra|svc|com|net|org|io|ai|cn|dev|cloud)\b"
    r"|(?:^|[\s\"'`(=:,<\[])~?/[\w.-]|\.(?:py|gguf|safetensors|bin|so|cpp|cu|js|ts|go|rs)\b"
    r"|\b(?:sk|pk|rk|gsk|hf|xai|org|proj|key)[-_][\w*-]{6,}|\bbearer \w|[a-z0-9_+/=-]{40,}",
    re.IGNORECASE,
)
"""What names a server, a file or a key of the operator's."""


def sanitized(error: ServerError, url: str, key: str) -> ServerError:
    """The error as far as the caller may see it: words, and the message if it names no server, path or key.
    `url` and `key` are those of the channel."""
    parts = urlsplit(url)
    secrets = [text for text in (key, unquote(parts.password or "")) if text]
    host = re.compile(rf"(?<!\w){re.escape(parts.hostname)}(?!\w)", re.IGNORECASE) if parts.hostname else None

    def safe(text: str) -> bool:
        names_host = _SERVER.search(text) or (host is not None and host.search(text))
        return not names_host and not any(each in text for each in secrets)

    def word(text: str) -> str:
        return text if _WORD.fullmatch(text) and safe(text) else ""

    line = " ".join("".join(each if each.isprintable() else " " for each in error.message).split())
    return ServerError(
        status=error.status,
        code=word(error.code),
        type=word(error.type),
        param=word(error.param),
        message=line[:_SHOWN_MAX_CHARS] if safe(line) else "",
    )


def retry_after_s(headers: Mapping[str, str], message: str = "") -> int | None:
    """The seconds of a Retry-After, which may be a date, or that the message of the error names; None without
    one."""
    named = _RETRY.search(message)
    given = headers.get("retry-after", "").strip() or (named[1] if named else "")
    try:
        return max(0, round(float(given))) if given else None
    except (ValueError, OverflowError):
        pass
    try:
        at = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0, round((at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()))
