"""The voices of a speech server, in whatever shape it lists them; pure."""

import re
from typing import Any, Final

import msgspec

from myna.engines.spoken import Voice

VOICES_MAX: Final = 500
ID_MAX_CHARS: Final = 100
UNKNOWN_LANGUAGE: Final = "und"  # BCP 47 for "undetermined"

# What each of OpenAI's speech models has spoken from the first; newer ones (ash, coral, sage, marin, …) are
# refused by some of its models and by most servers that only resemble it.
CLASSIC: Final = tuple(
    Voice(name, name.capitalize(), "neutral", UNKNOWN_LANGUAGE)
    for name in ("alloy", "echo", "fable", "nova", "onyx", "shimmer")
)

# Kokoro's ids begin with a letter for the language and one for the gender: af_bella, zm_yunxi.
_KOKORO: Final = re.compile(r"([abefhijpz])([fm])_")
_KOKORO_LANGUAGES: Final = {
    "a": "en-US",
    "b": "en-GB",
    "e": "es",
    "f": "fr-FR",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-BR",
    "z": "zh-CN",
}
_GENDERS: Final = {
    "f": "female",
    "female": "female",
    "woman": "female",
    "女": "female",
    "m": "male",
    "male": "male",
    "man": "male",
    "男": "male",
}
_LANGUAGE: Final = re.compile(r"([A-Za-z]{2,3})((?:[-_][A-Za-z0-9]{2,8})*)")


def read_voices(body: bytes) -> tuple[Voice, ...]:
    """The voices of an answer to GET /audio/voices. Raises ValueError where there is no list in it.

    Seen in the wild: a bare list, or one under `voices` or `data`, of ids or of objects with an id and
    perhaps a name, a gender, a language; or an object of objects, by id. Entries without a usable id are left
    out, as are repeated ones and those beyond the first 500.
    """
    found: dict[str, Voice] = {}
    for item in _items(_decoded(body)):
        voice = _voice(item)
        if voice is not None:
            found.setdefault(voice.voice_id, voice)
        if len(found) == VOICES_MAX:
            break
    return tuple(found.values())


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _items(answer: Any) -> list[Any]:
    if isinstance(answer, dict):
        answer = answer.get("voices", answer.get("data"))
    if isinstance(answer, dict):
        return [{**facts, "id": key} if isinstance(facts, dict) else key for key, facts in answer.items()]
    if not isinstance(answer, list):
        raise ValueError("no list of voices")
    return answer


def _voice(item: Any) -> Voice | None:
    facts = item if isinstance(item, dict) else {"id": item}
    voice_id = _first(facts, "id", "voice_id", "voice", "name")
    if not _usable(voice_id):
        return None
    name = _first(facts, "display_name", "name", "label")
    kokoro = _KOKORO.match(voice_id)
    gender = _GENDERS.get(_first(facts, "gender", "sex").lower())
    language = _tag(_first(facts, "language", "lang", "locale", "language_code"))
    return Voice(
        voice_id,
        name if _usable(name) else voice_id,
        gender or (_GENDERS[kokoro[2]] if kokoro else "neutral"),
        language or (_KOKORO_LANGUAGES[kokoro[1]] if kokoro else UNKNOWN_LANGUAGE),
    )


def _first(facts: dict[str, Any], *names: str) -> str:
    """The first of these that is a text with something in it; empty for none."""
    values = (facts.get(name) for name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")


def _usable(text: str) -> bool:
    """Short and visible: letters and digits of any script, ASCII's signs, spaces between."""
    return 0 < len(text) <= ID_MAX_CHARS and all(char.isalnum() or " " <= char <= "~" for char in text)


def _tag(text: str) -> str:
    """A language as BCP 47 writes it (zh_cn is zh-CN); empty for anything else, such as "English"."""
    match = _LANGUAGE.fullmatch(text)
    if match is None:
        return ""
    parts = match[2].replace("_", "-").split("-")[1:]
    return "-".join([match[1].lower(), *(_subtag(part) for part in parts)])


def _subtag(part: str) -> str:
    if len(part) == 2:
        return part.upper()
    return part.title() if len(part) == 4 and part.isalpha() else part.lower()
