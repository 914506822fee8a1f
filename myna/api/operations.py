"""The endpoints that /openapi.json documents."""

from typing import Any

from msgspec import Struct

from myna.engines.interface import SPEED_MAX, SPEED_MIN
from myna.store.batch import STORED_ANSWER_MAX_BYTES
from myna.wire import farm, openai, v1
from myna.wire.body import NAMES_MAX
from myna.wire.responses.request import ResponsesRequest

AUDIO = object()
"""In place of a struct: a request or response body that is audio."""
OBJECT = object()
"""In place of a struct: a JSON object that passes through."""
Described = dict[str, Any]
"""Parts of the document, by their names."""


class Operation(Struct, frozen=True):
    """What an endpoint does, the scope of the keys for it, and its bodies. `errors` are its statuses in
    addition to those that its API has, `headers` those of a success in addition to those of every answer.
    `streams`: the answer may be a stream of events. `form` is the schema of a body of multipart/form-data."""

    summary: str
    scope: str
    answer: Any
    body: Any = None
    parameters: tuple[Described, ...] = ()
    errors: tuple[str, ...] = ()
    headers: Described = {}
    streams: bool = False
    form: Described | None = None


class Api(Struct, frozen=True, kw_only=True):
    """The operations of an API by method and path, and what they share: the envelope of errors, the causes of
    each status, the statuses and parameters of all of them, and the statuses and headers of charged ones,
    which are its POSTs."""

    operations: dict[str, Operation]
    envelope: type[Struct]
    causes: dict[str, str]
    errors: tuple[str, ...]
    parameters: tuple[Described, ...] = ()
    is_charged: bool = True
    charged_errors: tuple[str, ...] = ()
    charged_headers: Described = {}


def _parameter(name: str, where: str, schema: Described, about: str = "", *, required: bool = False) -> Any:
    described = {"description": about} if about else {}
    return {"name": name, "in": where, "required": required, **described, "schema": schema}


def _header(about: str, example: str = "") -> Described:
    """A header of a response: a number, or a text such as the example."""
    described = {"schema": {"type": "string" if example else "integer"}, "description": about}
    return described | ({"example": example} if example else {})


# ---- headers and parameters

UNITS = {
    "X-Units-Cost": _header("The units that this request cost; 0 for a stored response."),
    "X-Units-Balance": _header("The account's balance after it."),
}
RATE = {
    "X-RateLimit-Limit-Requests": _header(
        "The calls per minute of the key or the account, whichever has fewer left. This header and the next"
        " two only if they are limited."
    ),
    "X-RateLimit-Remaining-Requests": _header("The calls that are left in this minute."),
    "X-RateLimit-Reset-Requests": _header("The time until the minute ends.", "1m12s"),
}
RETRY = {"Retry-After": _header("The seconds after which the same request may be sent again.")}
_SPEECH = {
    "X-Ignored-Fields": _header(
        f"The names of the body's unknown fields, {NAMES_MAX} at most, and the number of the others. Only if"
        " there are any.",
        "voice, format, 2 more",
    ),
    "X-Unspoken": _header(
        "What of the text was not spoken, and how often: letters of scripts that the voice does not have,"
        " emoji, signs, and markup by its name. Only if there is any.",
        "Thai 6, Emoji 1, <prosody> 2",
    ),
}
_IGNORED_TOOLS = {
    "X-Ignored-Tools": _header(
        "The types of the tools that nothing here can run and that were left out. Only if there are any.",
        "web_search",
    )
}
_CHANNEL = {
    "X-Myna-Channel": {
        "description": "The channel that answered; `node` for compute nodes. Not of a stored response.",
        "schema": {"type": "string"},
    }
}

IDEMPOTENCY = _parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "minLength": 1, "maxLength": 255},
    "A second request of the same key, path and body gets the first answer, uncharged; a 400 if that"
    f" answer has more than {STORED_ANSWER_MAX_BYTES} bytes.",
)
_TASK_ID = _parameter("id", "query", {"type": "integer"}, required=True)
_LIMIT = _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 200, "default": 100})
_BEFORE = _parameter("before", "query", {"type": "integer", "minimum": 1}, "Only records with a smaller id.")
_MODEL = _parameter("id", "path", {"type": "string"}, "The name of a model.", required=True)
_RESPONSE = _parameter("id", "path", {"type": "string"}, "The id of a response.", required=True)
_PROTOCOL = _parameter(
    farm.PROTOCOL_HEADER,
    "header",
    {"type": "string", "pattern": f"^{farm.PROTOCOL}$"},
    "The protocol's number.",
    required=True,
)
_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SAMPLE = _parameter("sha256", "query", _SHA256, "The sample that a leased job uses.", required=True)
_JOB = _parameter(
    farm.JOB_HEADER,
    "header",
    {"type": "string", "pattern": "^(task|clone) [0-9]{1,16} [0-9]{1,16} [!-~]{1,100}$"},
    "Kind, id, epoch and token of the leased job.",
    required=True,
)
_DIGEST = _parameter(farm.SHA256_HEADER, "header", _SHA256, "Of the body.", required=True)
_FORM = {
    "type": "object",
    "required": ["file", "model"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "model": {"type": "string"},
        "language": {"type": "string"},
        "prompt": {"type": "string"},
        "response_format": {"enum": ["json", "text", "srt", "vtt", "verbose_json"]},
        "temperature": {"type": "number"},
        "timestamp_granularities[]": {"type": "array", "items": {"enum": ["segment", "word"]}},
        "stream": {"type": "boolean"},
    },
}


# ---- the APIs

_CAUSES = {
    "400": "the request is invalid",
    "401": "key missing, unknown, revoked, expired, or without the scope",
    "402": "not enough units, the storage quota is reached, or speech by chat on a key without tts;"
    " nothing charged",
    "404": "no such task of this account",
    "413": "the body is over the limit",
    "429": "a limit of the key or the account is reached, or too many requests from this address had an"
    " unknown key; nothing charged",
    "500": "every channel failed, or an internal error; the units were refunded",
    "503": "nothing can speak this now, the disk is full, or the service or its database is overloaded;"
    " nothing charged",
}
V1 = Api(
    operations={
        "GET /me": Operation("The calling key and its usage", "", v1.KeyInfo, headers=UNITS),
        "GET /models": Operation("The models", "chat", v1.ModelList),
        "POST /chat/completions": Operation(
            "A chat completion, or speech if the instruction asks for it",
            "chat",
            v1.ChatCompletion,
            v1.ChatRequest,
        ),
        "GET /voices": Operation("Voices that can be used now", "tts", v1.VoiceList),
        "POST /tts": Operation(
            "Text to speech, at once or as a task",
            "tts",
            v1.SpeechDone | v1.SpeechOrdered,
            v1.SpeechRequest,
            headers=_SPEECH,
        ),
        "GET /task": Operation(
            "A speech task of the account",
            "tts",
            v1.TaskAnswer,
            parameters=(_TASK_ID,),
            errors=("400", "404"),
        ),
        "GET /records": Operation(
            "Speech records, newest first",
            "records",
            v1.RecordList,
            parameters=(_LIMIT, _BEFORE),
            errors=("400",),
        ),
    },
    envelope=v1.ErrorAnswer,
    causes=_CAUSES,
    errors=("401", "429", "500", "503"),
    charged_errors=("400", "402", "413"),
)
"""Its paths are below /v1, those of the others below the service's root."""

OPENAI = Api(
    operations={
        "GET /openai/v1/models": Operation("The models that the key may use", "chat", openai.RoutedModelList),
        "GET /openai/v1/models/{id}": Operation(
            "A model", "chat", openai.RoutedModel, parameters=(_MODEL,), errors=("404",)
        ),
        "POST /openai/v1/chat/completions": Operation(
            "A chat completion", "chat", OBJECT, openai.OpenAIChatRequest, streams=True
        ),
        "POST /openai/v1/responses": Operation(
            "A response", "chat", OBJECT, ResponsesRequest, streams=True, headers=_IGNORED_TOOLS
        ),
        "GET /openai/v1/responses/{id}": Operation(
            "A stored response", "chat", OBJECT, parameters=(_RESPONSE,), errors=("404",)
        ),
        "DELETE /openai/v1/responses/{id}": Operation(
            "The deletion of one", "chat", openai.DeletedResponse, parameters=(_RESPONSE,), errors=("404",)
        ),
        "POST /openai/v1/completions": Operation(
            "A completion", "chat", OBJECT, openai.CompletionRequest, streams=True
        ),
        "POST /openai/v1/embeddings": Operation("Embeddings", "chat", OBJECT, openai.EmbeddingsRequest),
        "POST /openai/v1/audio/speech": Operation(
            "Text to speech", "tts", AUDIO, openai.OpenAISpeechRequest, streams=True, headers=_SPEECH
        ),
        "GET /openai/v1/audio/voices": Operation("Voices that can be used now", "tts", openai.AudioVoices),
        "POST /openai/v1/audio/transcriptions": Operation(
            "The text of a recording", "chat", OBJECT, form=_FORM
        ),
        "POST /openai/v1/audio/translations": Operation(
            "The English text of a recording", "chat", OBJECT, form=_FORM
        ),
    },
    envelope=openai.OpenAIError,
    causes={
        **_CAUSES,
        "401": "key missing, unknown, revoked or expired",
        "402": "not enough units, or the storage quota is reached; nothing charged",
        "403": "the key lacks the scope",
        "404": "no such model or response, or none that this key may use",
        "429": "a limit of the key, the account or the channel is reached, or too many requests from this"
        " address had an unknown key; nothing charged",
        "504": "the channel took too long; the units were refunded",
    },
    errors=("401", "403", "429", "500", "503"),
    charged_errors=("400", "402", "404", "413", "504"),
    charged_headers=_CHANNEL,
)
"""The fields that are documented are those that the service reads; of a chat, all others pass to the
channel."""

FARM = Api(
    operations={
        "POST /farm/v1/join": Operation(
            "A token for the credential of a node; works once", "", farm.Joined, farm.Join
        ),
        "POST /farm/v1/hello": Operation("What the node can do from now on", "", farm.Welcome, farm.Hello),
        "POST /farm/v1/lease": Operation("Jobs, as soon as there are some", "", farm.Leased, farm.Lease),
        "POST /farm/v1/beat": Operation(
            "The jobs that the node has leased, and their progress",
            "",
            farm.HeartbeatsAnswer,
            farm.Heartbeats,
        ),
        "GET /farm/v1/reference": Operation(
            "The sample of a leased job", "", AUDIO, parameters=(_SAMPLE,), errors=("404",)
        ),
        "POST /farm/v1/complete": Operation(
            "The audio of a leased job", "", farm.Done, AUDIO, parameters=(_JOB, _DIGEST), errors=("409",)
        ),
        "POST /farm/v1/fail": Operation(
            "Why a leased job failed", "", farm.Done, farm.Failure, errors=("409",)
        ),
    },
    envelope=v1.ErrorAnswer,
    causes={
        **_CAUSES,
        "401": "the token or the credential is unknown or disabled",
        "404": "no job that the node has leased uses this sample",
        "409": "the node doesn't have the lease of this job, or no longer has it",
        "426": "the node has another version of the protocol",
        "500": "an internal error",
        "503": "the service or its database is overloaded, or the disk is full; send it again",
    },
    errors=("400", "401", "413", "426", "500", "503"),
    parameters=(_PROTOCOL,),
    is_charged=False,
)
"""A node sends its credential as the bearer token."""


# ---- limits

_TEXTS = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
]
"""A text, several, the tokens of one, or those of several."""


def limit_fields(schemas: Described, tts_max_chars: int) -> None:
    """Adds the limits that the use cases check to the schemas of the structs."""
    schemas["ChatRequest"]["properties"]["messages"]["minItems"] = 1
    schemas["ChatRequest"]["properties"]["messages"]["description"] = (
        "At least one has the role user; the text of the last of these decides and must not be blank."
    )
    schemas["EmbeddingsRequest"]["properties"]["input"] = {"anyOf": _TEXTS}
    schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"] = [*_TEXTS, {"type": "null"}]
    fields = schemas["SpeechRequest"]["properties"]
    fields["text"] |= {"minLength": 1, "maxLength": tts_max_chars, "description": "What to speak; not blank."}
    fields["speed"] |= {
        "description": f"A decimal string from {SPEED_MIN} to {SPEED_MAX}; empty or left out: 1.0.",
        "pattern": r"^([0-9]{1,4}(\.[0-9]{1,12})?)?$",
    }
