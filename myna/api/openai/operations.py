"""The endpoints of /openai/v1 that /openapi.json documents."""

from typing import Any

from msgspec import structs

from myna.api.operations import AUDIO, ERRORS, IDEMPOTENCY, OBJECT, Operation, parameter
from myna.wire import openai, openai_audio
from myna.wire.responses.request import ResponsesRequest

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
    _post("/audio/speech", "Text to speech", "tts", openai_audio.OpenAISpeechRequest, AUDIO, streams=True),
    _get("/audio/voices", "Voices that can be used now", "tts", openai_audio.AudioVoices, errors=("403",)),
    _post("/audio/transcriptions", "The text of a recording", "chat", None, form=_FORM),
    _post("/audio/translations", "The English text of a recording", "chat", None, form=_FORM),
)
"""Below the service's root. The fields that are documented are those that the service reads; of a chat, all
others pass to the channel."""
