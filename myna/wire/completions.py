"""Chat completions and their chunks as clients with strict types read them: openai-dotnet, async-openai,
go-openai and the SDKs for Swift fail on a member of another type than OpenAI's, and on a word that they don't
know.

One rule for whole answers and chunks: what is as OpenAI has it stays, what only counts or decorates becomes
so or is left out, and the content is a text, with the model's thoughts beside it.

Also the tokens of an answer: Han characters, in which the contract counts them, and those that the channel
counted, which are for the log and the metrics, never for the price. Its usage is at its end: inside a string
the name has a backslash before each quote, so bytes that look like it are it, and a large answer is not
decoded.
"""

import re
from typing import Any, Final

from myna.lib.ids import new_name
from myna.wire.lenient import (
    TEXT_PARTS,
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

ID_PREFIX: Final = "chatcmpl-"
MEMBERS: Final[tuple[str, ...]] = ("id", "object", "created", "system_fingerprint", "service_tier", "usage")
"""Those of an answer or a chunk, beside its choices and its model."""
UNLIKELY: Final = -9999.0
"""The log probability of a token without one, as OpenAI's API has it."""
_TIERS: Final = (None, "auto", "default", "flex", "scale", "priority")
_TEXTS: Final = (*TEXT_PARTS, "thinking", "reference", "refusal")
"""The kinds of parts of which a text is made, with the thoughts and the refusal beside it. Others, such as
images, have no other place than the content."""
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
    rb'|(?:choices|tool_calls)" ?:(?! ?\[ ?[{\]])'
    rb'|delta" ?:(?! ?\{)'
    rb'|(?:function_call|usage|logprobs|annotations|audio)" ?:(?! ?null)'
    rb")"
)
"""Something in an answer's JSON that is perhaps not as OpenAI has it, or else is rare."""
_ASCII = bytes(range(128))
# The Unicode script Han (Scripts.txt of Unicode 17). A character class of `re` is several times as fast as
# \p{Script=Han} of `regex`, and this runs on the event loop over whole conversations.
_HAN = (
    "\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufa6d\ufa70-\ufad9\U00016fe2-\U00016fe3\U00016ff0-\U00016ff6\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81e\U0002b820-\U0002cead\U0002ceb0-\U0002ebe0\U0002ebf0-\U0002ee5d"
    "\U0002f800-\U0002fa1d\U00030000-\U0003134a\U00031350-\U00033479"
)
_HAN_RUN = re.compile(f"[{_HAN}]+")
END_BYTES: Final = 4096
"""Where in an answer its usage is looked for, counted from its end."""
BYTES_PER_TOKEN: Final = 4
"""Of JSON, in English; a Han character has three bytes."""
_USAGE: Final = b'"usage"'
_INPUT: Final = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*([0-9]{1,15})')
_OUTPUT: Final = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*([0-9]{1,15})')


def is_odd(data: bytes) -> bool:
    """Whether the JSON of a chunk may need what this module does, by its bytes alone."""
    return _ODD.search(data) is not None


def members(given: dict[str, Any], missing: dict[str, Any]) -> dict[str, Any]:
    """The members of an answer, of those of `MEMBERS`; `missing` has an id and a time for one without, and
    the only word for `object`."""
    found, created = given | missing, count_of(given.get("created"))
    if created is not None and created >= 0:
        found["created"] = created // 1000 if created >= _MILLISECONDS_MIN else created
    if given.get("id") and isinstance(given["id"], str | int | float):
        found["id"] = str(given["id"])
    if not isinstance(given.get("system_fingerprint"), str | None):
        del found["system_fingerprint"]
    if given.get("service_tier") not in _TIERS:
        del found["service_tier"]
    if "usage" in given:
        found["usage"] = usage(given["usage"])
    return found


def usage_in(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The usage of a completion or a chunk, which Moonshot sends within a choice; None without one."""
    places = [answer, *objects_of(answer.get("choices"))]
    return usage(next((place["usage"] for place in places if isinstance(place.get("usage"), dict)), None))


def han_count(text: str) -> int:
    """The number of code points in `text` whose Unicode script is Han; 々 and 〇 are, kana and 。 are not."""
    if text.isascii():
        return 0
    rest = text.encode("utf-8", "ignore").translate(None, _ASCII).decode()
    return sum(map(len, _HAN_RUN.findall(rest)))


def usage_at_end(answer: bytes) -> tuple[int, int] | None:
    """The tokens of the request and of the answer, by the last usage near its end; None without one."""
    end = answer[-END_BYTES:]
    found = end.rfind(_USAGE)
    if found < 0 or (given := _INPUT.search(end, found)) is None:
        return None
    made = _OUTPUT.search(end, found)
    return int(given[1]), int(made[1]) if made else 0


def counted_usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """The usage of an answer for which the channel states none."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


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
    found = {**given, "index": place_of(given.get("index"), place)}
    if part != "text":
        said = given.get(part) or (found.pop("delta", None) if part == "message" else None)
        found[part] = message(object_of(said), whole=part == "message")
    elif not isinstance(given.get(part), str):
        found[part] = text_of(given.get(part))
    found["finish_reason"] = reason_of(given.get("finish_reason")) or None
    if "logprobs" in given:
        found["logprobs"] = logprobs(given["logprobs"])
    return found


def place_of(index: Any, place: int) -> int:
    """The index of what is at this place of a list."""
    found = _count(index)
    return place if found is None else found


def message(given: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """A message of the assistant, or a part of one."""
    found = dict(given)
    if whole:
        found |= {"role": "assistant", "content": given.get("content")}
    elif given.get("role") is not None:
        found["role"] = "assistant"
    parts = _parts(given.get("content"))
    if parts and all(part.get("type") in _TEXTS for part in parts):
        found["content"] = text_of(parts) or None
        found |= {} if given.get("reasoning_content") else _texts("reasoning_content", thought_of(parts))
        found |= _texts("refusal", "".join(text_of(part.get("refusal")) for part in parts))
    for name in ("refusal", "reasoning_content"):
        if not isinstance(found.get(name), str | None):
            found[name] = text_of(found[name]) or None
    for name in ("tool_calls", "annotations"):
        if not isinstance(given.get(name), list | None):
            del found[name]
    if calls := objects_of(given.get("tool_calls")):
        found["tool_calls"] = [one for each in calls if (one := call(each, whole=whole))]
    if marks := objects_of(given.get("annotations")):
        found["annotations"] = [mark for mark in marks if isinstance(mark.get("url_citation"), dict)]
    if not is_set(given.get("audio", 1)):
        found["audio"] = None
    if (legacy := given.get("function_call")) is not None:
        if is_set(legacy) and isinstance(legacy, dict):
            found["function_call"] = _function(legacy, whole=whole)
        else:
            del found["function_call"]
    return found


def call(given: dict[str, Any], *, whole: bool = True) -> dict[str, Any]:
    """A call of a function, or a part of one: its begin has an id and a type, and its arguments are JSON as
    text, an empty object for none. Some servers send an object, or no `function` around both. Empty for a
    whole call without a name."""
    found, function = dict(given), object_of(given.get("function"))
    if not function and "name" in given:
        function = {name: found.pop(name) for name in ("name", "arguments") if name in given}
    if function:
        found["function"] = _function(function, whole=whole)
    if not isinstance(given.get("id"), str | None):
        found["id"] = str(given["id"])
    if given.get("type") not in ("function", "custom"):
        found.pop("type", None)
    if whole and not function.get("name") and "custom" not in given:
        return {}
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
    return given | {"arguments": json_text_of(arguments) or ("{}" if whole else "")}


def _count(value: Any) -> int | None:
    found = count_of(value)
    return None if found is None else max(found, 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a content that is no text, some of which are texts or a part alone."""
    parts = content if isinstance(content, list) else [content] if isinstance(content, dict) else []
    return objects_of([{"text": part} if isinstance(part, str) else part for part in parts])


def _texts(name: str, text: str) -> dict[str, str]:
    return {name: text} if text else {}
