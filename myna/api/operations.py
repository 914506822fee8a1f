"""The endpoints that /openapi.json documents."""

from typing import Any

from msgspec import Struct, structs

from myna.engines.interface import SPEED_MAX, SPEED_MIN
from myna.store.batch import STORED_ANSWER_MAX_BYTES
from myna.wire import farm, openai, v1
from myna.wire.responses.request import ResponsesRequest

AUDIO = object()
"""In place of a struct: a request or response body that is audio."""
OBJECT = object()
"""In place of a struct: a JSON object that passes through."""

ERRORS = {
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
FARM_ERRORS = {
    **ERRORS,
    "401": "the token or the credential is unknown or disabled",
    "404": "no job that the node has leased uses this sample",
    "409": "the node doesn't have the lease of this job, or no longer has it",
    "426": "the node has another version of the protocol",
    "500": "an internal error",
    "503": "the service or its database is overloaded, or the disk is full; send it again",
}


class Operation(Struct, frozen=True, kw_only=True):
    """A method of a path. `errors` are its statuses in addition to those of every operation. `streams`: the
    answer may be a stream of events. `form` is the schema of a body of multipart/form-data."""

    path: str
    method: str
    summary: str
    answer: Any
    scope: str = ""
    body: Any = None
    parameters: tuple[dict[str, Any], ...] = ()
    errors: tuple[str, ...] = ()
    streams: bool = False
    form: dict[str, Any] | None = None


def parameter(
    name: str, where: str, schema: dict[str, Any], about: str = "", *, required: bool = False
) -> Any:
    """A parameter of an operation."""
    described = {"description": about} if about else {}
    return {"name": name, "in": where, "required": required, **described, "schema": schema}


IDEMPOTENCY = parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "minLength": 1, "maxLength": 255},
    "A second request of the same key, path and body gets the first answer, uncharged; a 400 if that"
    f" answer has more than {STORED_ANSWER_MAX_BYTES} bytes.",
)
_TASK_ID = parameter("id", "query", {"type": "integer"}, required=True)
_LIMIT = parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 200, "default": 100})
_BEFORE = parameter("before", "query", {"type": "integer", "minimum": 1}, "Only records with a smaller id.")
_PROTOCOL = parameter(
    farm.PROTOCOL_HEADER,
    "header",
    {"type": "string", "pattern": f"^{farm.PROTOCOL}$"},
    "The protocol's number.",
    required=True,
)
_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SAMPLE = parameter("sha256", "query", _SHA256, "The sample that a leased job uses.", required=True)
_JOB = parameter(
    farm.JOB_HEADER,
    "header",
    {"type": "string", "pattern": "^(task|clone) [0-9]{1,16} [0-9]{1,16} [!-~]{1,100}$"},
    "Kind, id, epoch and token of the leased job.",
    required=True,
)
_DIGEST = parameter(farm.SHA256_HEADER, "header", _SHA256, "Of the body.", required=True)


def _charged(path: str, summary: str, scope: str, body: Any, answer: Any) -> Operation:
    """A POST that is charged, and whose answer is stored under an idempotency key."""
    return Operation(
        path=path,
        method="post",
        summary=summary,
        scope=scope,
        body=body,
        answer=answer,
        parameters=(IDEMPOTENCY,),
        errors=("400", "402", "413"),
    )


OPERATIONS = (
    Operation(path="/me", method="get", summary="The calling key and its usage", answer=v1.KeyInfo),
    Operation(path="/models", method="get", summary="The models", scope="chat", answer=v1.ModelList),
    _charged(
        "/chat/completions",
        "A chat completion, or speech if the instruction asks for it",
        "chat",
        v1.ChatRequest,
        v1.ChatCompletion,
    ),
    Operation(
        path="/voices", method="get", summary="Voices that can be used now", scope="tts", answer=v1.VoiceList
    ),
    _charged(
        "/tts",
        "Text to speech, at once or as a task",
        "tts",
        v1.SpeechRequest,
        v1.SpeechDone | v1.SpeechOrdered,
    ),
    Operation(
        path="/task",
        method="get",
        summary="A speech task of the account",
        scope="tts",
        answer=v1.TaskAnswer,
        parameters=(_TASK_ID,),
        errors=("400", "404"),
    ),
    Operation(
        path="/records",
        method="get",
        summary="Speech records, newest first",
        scope="records",
        answer=v1.RecordList,
        parameters=(_LIMIT, _BEFORE),
        errors=("400",),
    ),
)


def _of_nodes(name: str, summary: str, body: Any, answer: Any, **more: Any) -> Operation:
    errors = ("400", "413", "426", *more.pop("errors", ()))
    parameters = (_PROTOCOL, *more.pop("parameters", ()))
    return Operation(
        path=f"{farm.PREFIX}/{name}",
        method="post" if body else "get",
        summary=summary,
        body=body,
        answer=answer,
        parameters=parameters,
        errors=errors,
    )


FARM_OPERATIONS = (
    _of_nodes("join", "A token for the credential of a node; works once", farm.Join, farm.Joined),
    _of_nodes("hello", "What the node can do from now on", farm.Hello, farm.Welcome),
    _of_nodes("lease", "Jobs, as soon as there are some", farm.Lease, farm.Leased),
    _of_nodes(
        "beat",
        "The jobs that the node has leased, and their progress",
        farm.Heartbeats,
        farm.HeartbeatsAnswer,
    ),
    _of_nodes("reference", "The sample of a leased job", None, AUDIO, parameters=(_SAMPLE,), errors=("404",)),
    _of_nodes(
        "complete", "The audio of a leased job", AUDIO, farm.Done, parameters=(_JOB, _DIGEST), errors=("409",)
    ),
    _of_nodes("fail", "Why a leased job failed", farm.Failure, farm.Done, errors=("409",)),
)
"""Below the service's root, not below /v1. A node sends its credential as the bearer token."""


_TEXTS = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
]
"""A text, several, the tokens of one, or those of several."""


def limit_fields(schemas: dict[str, Any], tts_max_chars: int) -> None:
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


PREFIX = "/openai/v1"
OPENAI_ERRORS = {
    **ERRORS,
    "401": "key missing, unknown, revoked or expired",
    "402": "not enough units, or the storage quota is reached; nothing charged",
    "403": "the key lacks the scope",
    "404": "no such model or response, or none that this key may use",
    "429": "a limit of the key, the account or the channel is reached, or too many requests from this address"
    " had an unknown key; nothing charged",
    "504": "the channel took too long; the units were refunded",
}
_MODEL = parameter("id", "path", {"type": "string"}, "The name of a model.", required=True)
_RESPONSE = parameter("id", "path", {"type": "string"}, "The id of a response.", required=True)
_OF_RESPONSE = {"errors": ("403", "404"), "parameters": (_RESPONSE,)}
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


def _get(path: str, summary: str, scope: str, answer: Any, **more: Any) -> Operation:
    return Operation(path=PREFIX + path, method="get", summary=summary, scope=scope, answer=answer, **more)


def _delete(path: str, summary: str, scope: str, answer: Any, **more: Any) -> Operation:
    return structs.replace(_get(path, summary, scope, answer, **more), method="delete")


def _post(path: str, summary: str, scope: str, body: Any, answer: Any = OBJECT, **more: Any) -> Operation:
    """A POST that is charged."""
    return Operation(
        path=PREFIX + path,
        method="post",
        summary=summary,
        scope=scope,
        body=body,
        answer=answer,
        parameters=(IDEMPOTENCY,),
        errors=("400", "402", "403", "404", "413", "504"),
        **more,
    )


OPENAI_OPERATIONS = (
    _get("/models", "The models that the key may use", "chat", openai.RoutedModelList, errors=("403",)),
    _get("/models/{id}", "A model", "chat", openai.RoutedModel, errors=("403", "404"), parameters=(_MODEL,)),
    _post("/chat/completions", "A chat completion", "chat", openai.OpenAIChatRequest, streams=True),
    _post("/responses", "A response", "chat", ResponsesRequest, streams=True),
    _get("/responses/{id}", "A stored response", "chat", OBJECT, **_OF_RESPONSE),
    _delete("/responses/{id}", "The deletion of one", "chat", openai.DeletedResponse, **_OF_RESPONSE),
    _post("/completions", "A completion", "chat", openai.CompletionRequest, streams=True),
    _post("/embeddings", "Embeddings", "chat", openai.EmbeddingsRequest),
    _post("/audio/speech", "Text to speech", "tts", openai.OpenAISpeechRequest, AUDIO, streams=True),
    _get("/audio/voices", "Voices that can be used now", "tts", openai.AudioVoices, errors=("403",)),
    _post("/audio/transcriptions", "The text of a recording", "chat", None, form=_FORM),
    _post("/audio/translations", "The English text of a recording", "chat", None, form=_FORM),
)
"""Below the service's root. The fields that are documented are those that the service reads; of a chat, all
others pass to the channel."""
