"""Chat completions and their chunks as clients with strict types read them: openai-dotnet, async-openai,
go-openai and the SDKs for Swift fail on a member of another type than OpenAI's, and on a word that they don't
know.

One rule for whole answers and chunks: what is as OpenAI has it stays, what only counts or decorates becomes
so or is left out, and the content is a text, with the model's thoughts beside it.
"""

import re
from typing import Any, Final

from myna.lib.ids import new_name
from myna.wire.lenient import (
    count_of,
    is_set,
    joined,
    json_text_of,
    object_of,
    objects_of,
    reason_of,
    text_of,
    thought_of,
)

MEMBERS: Final[tuple[str, ...]] = ("id", "object", "created", "system_fingerprint", "service_tier", "usage")
"""Those of an answer or a chunk, beside its choices and its model."""
UNLIKELY: Final = -9999.0
"""The log probability of a token without one, as OpenAI's API has it."""
_TIERS: Final = (None, "auto", "default", "flex", "scale", "priority")
_TEXTS: Final = (None, "text", "output_text", "thinking", "reference")
"""The kinds of parts that make up a text. Others, such as images, have no other place than the content."""
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_MILLISECONDS_MIN: Final = 10**11
_ODD: Final = re.compile(
    rb'"(?:'
    rb'(?:id|object|model|system_fingerprint)" ?:(?! ?(?:"|null))'
    rb'|(?:created|index|(?:prompt|completion|total)_tokens)" ?:(?! ?\d{1,11} ?[,}])'
    rb'|(?:content|reasoning_content|refusal|arguments)" ?:(?! ?(?:"|null))'
    rb'|role" ?:(?! ?(?:"assistant"|null))'
    rb'|finish_reason" ?:(?! ?(?:"stop"|null))'
    rb'|service_tier" ?:(?! ?(?:"default"|"auto"|null))'
    rb'|(?:choices|tool_calls)" ?:(?! ?\[)'
    rb'|(?:function_call|usage|logprobs)" ?:(?! ?null)'
    rb")"
)
"""Something in an answer's JSON that is perhaps not as OpenAI has it, or else is rare."""


def is_odd(data: bytes) -> bool:
    """Whether the JSON of a chunk may need what this module does, by its bytes alone."""
    return _ODD.search(data) is not None


def members(given: dict[str, Any], missing: dict[str, Any]) -> dict[str, Any]:
    """The members of an answer, of those of `MEMBERS`; `missing` are put in where it has none."""
    found, created = dict(given), count_of(given.get("created"))
    found["id"] = str(given["id"]) if _is_number(given.get("id")) else text_of(given.get("id"))
    found["object"] = text_of(given.get("object"))
    if created is not None and created >= 0:
        found["created"] = created // 1000 if created >= _MILLISECONDS_MIN else created
    else:
        found["created"] = ""
    for name in missing:
        if found[name] == "":
            del found[name]
    if not isinstance(given.get("system_fingerprint"), str | None):
        del found["system_fingerprint"]
    if given.get("service_tier") not in _TIERS:
        del found["service_tier"]
    if "usage" in given:
        found["usage"] = usage(given["usage"])
    return missing | found


def usage(given: Any) -> dict[str, Any] | None:
    """The usage with all counts, as whole numbers; None where it says nothing."""
    if not isinstance(given, dict) or not is_set(given):
        return None
    prompt, completion, total = (_count(given.get(name)) for name in _COUNTS)
    prompt = _count(given.get("input_tokens")) if prompt is None else prompt
    completion = _count(given.get("output_tokens")) if completion is None else completion
    if total is not None:
        prompt = max(total - (completion or 0), 0) if prompt is None else prompt
        completion = max(total - prompt, 0) if completion is None else completion
    counts = (prompt or 0, completion or 0, (prompt or 0) + (completion or 0) if total is None else total)
    found = given | dict(zip(_COUNTS, counts, strict=True))
    for name in ("prompt_tokens_details", "completion_tokens_details"):
        if isinstance(details := found.get(name), dict):
            found[name] = {kind: _count(value) for kind, value in details.items()}
        elif name in found:
            found[name] = None
    return found


def choice(place: int, given: dict[str, Any], part: str) -> dict[str, Any]:
    """A choice, whose `part` is `message`, `delta` or `text`; without a reason to finish it is None."""
    index = _count(given.get("index"))
    found = {**given, "index": place if index is None else index}
    if part != "text":
        found[part] = message(object_of(given.get(part)), whole=part == "message")
    elif not isinstance(given.get(part), str):
        found[part] = text_of(given.get(part))
    found["finish_reason"] = reason_of(given.get("finish_reason")) or None
    if "logprobs" in given:
        found["logprobs"] = logprobs(given["logprobs"])
    return found


def message(given: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """A message of the assistant, or a part of one."""
    found = dict(given)
    if whole:
        found |= {"role": "assistant", "content": given.get("content")}
    elif given.get("role") is not None:
        found["role"] = "assistant"
    content = [given["content"]] if isinstance(given.get("content"), dict) else given.get("content")
    if isinstance(content, list) and all(_is_text(each) for each in content):
        found["content"] = text_of(content)
        if (thought := thought_of(content)) and not given.get("reasoning_content"):
            found["reasoning_content"] = thought
    for name in ("refusal", "reasoning_content"):
        if not isinstance(given.get(name), str | None):
            found[name] = text_of(given[name]) or None
    if not isinstance(given.get("tool_calls"), list | None):
        del found["tool_calls"]
    elif given.get("tool_calls"):
        found["tool_calls"] = [call(each, whole=whole) for each in objects_of(given["tool_calls"])]
    if (legacy := given.get("function_call")) is not None:
        if is_set(legacy) and isinstance(legacy, dict):
            found["function_call"] = _function(legacy, whole=whole)
        else:
            del found["function_call"]
    return found


def call(given: dict[str, Any], *, whole: bool = True) -> dict[str, Any]:
    """A call of a function, or a part of one: its begin has an id and a type, and its arguments are JSON as
    text, an empty object for none. Some servers send an object."""
    found, function = dict(given), object_of(given.get("function"))
    if function:
        found["function"] = _function(function, whole=whole)
    if not isinstance(given.get("id"), str | None):
        found["id"] = str(given["id"])
    if not given.get("type"):
        found.pop("type", None)
    if function.get("name"):
        found = {
            **found,
            "id": found.get("id") or "call_" + new_name(),
            "type": found.get("type", "function"),
        }
    return found


def logprob(given: dict[str, Any]) -> dict[str, Any]:
    """A token with its log probability, and with those of others in its place."""
    token, value, data = joined(text_of(given.get("token"))), given.get("logprob"), given.get("bytes")
    others = objects_of(given.get("top_logprobs"))
    return {
        "token": token,
        "logprob": value if _is_number(value) else UNLIKELY,
        "bytes": data if isinstance(data, list) else list(token.encode()),
        **({"top_logprobs": [logprob(each) for each in others]} if "top_logprobs" in given else {}),
    }


def logprobs(given: Any) -> dict[str, Any] | None:
    """Those of a choice; legacy completions have other members."""
    if not isinstance(given, dict):
        return None
    lists = {name: given[name] for name in ("content", "refusal") if isinstance(given.get(name), list)}
    return given | {
        name: [{"top_logprobs": []} | logprob(each) for each in objects_of(tokens)]
        for name, tokens in lists.items()
    }


def _function(given: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    arguments = given.get("arguments")
    if isinstance(arguments, str) and (arguments or not whole):
        return given
    if arguments is None and not whole:
        return given
    return given | {"arguments": json_text_of(arguments) or ("{}" if whole else "")}


def _count(value: Any) -> int | None:
    found = count_of(value)
    return None if found is None else max(found, 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _TEXTS
