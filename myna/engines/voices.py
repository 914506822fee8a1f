"""Voices that operators choose, name and blend.

A recipe of a blend names some of an engine's voices with their weights, like zf_xiaoxiao:2+zf_xiaobei:1. The
form of Kokoro-FastAPI, zf_xiaoxiao(2)+zf_xiaobei(1), is the same recipe. An engine that can blend accepts a
recipe of its voices in place of a voice's id: see `Engine.blends`.
"""

import functools
import re
from collections.abc import Container, Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from myna.engines.interface import EngineVoice
from myna.errors import ConfigError
from myna.wire.farm import Label, Language, VoiceId

VoiceIds = Annotated[list[VoiceId], Meta(min_length=1)]
PARTS_MIN: Final = 2
PARTS_MAX: Final = 5
EXAMPLE: Final = "zf_xiaoxiao:2+zf_xiaobei:1"
SAMPLES: Final = {
    "zh": "你好，这是我的声音。今天天气不错，我们一起去公园散步吧。",
    "yue": "你好，呢把係我嘅聲。今日天氣幾好，我哋一齊去公園行下啦。",
    "en": "Hello, this is my voice. The weather is lovely today; let us take a walk in the park.",
    "ja": "こんにちは、これは私の声です。今日は天気がいいので、公園を散歩しましょう。",
    "ko": "안녕하세요, 이것은 제 목소리입니다. 오늘은 날씨가 좋으니 공원을 산책합시다.",
    "de": "Hallo, das ist meine Stimme. Heute ist schönes Wetter, gehen wir doch im Park spazieren.",
    "fr": "Bonjour, voici ma voix. Il fait beau aujourd'hui, allons nous promener au parc.",
    "es": "Hola, esta es mi voz. Hoy hace buen tiempo, vamos a pasear por el parque.",
    "pt": "Olá, esta é a minha voz. Hoje o tempo está bom, vamos passear no parque.",
    "it": "Ciao, questa è la mia voce. Oggi è una bella giornata, andiamo a passeggiare nel parco.",
    "hi": "नमस्ते, यह मेरी आवाज़ है। आज मौसम बहुत अच्छा है, चलिए पार्क में टहलने चलते हैं।",
    "ru": "Здравствуйте, это мой голос. Сегодня хорошая погода, пойдёмте гулять в парк.",
}
"""What a voice says of itself, by its spoken language."""
_WEIGHT: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,2})?")


class VoiceConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A name for a speaker of a model."""

    id: VoiceId
    name: Label
    language: Language
    gender: Literal["female", "male", "neutral"] = "neutral"
    speaker: Annotated[int, Meta(ge=0)] = 0

    @property
    def described(self) -> EngineVoice:
        return EngineVoice(voice_id=self.id, name=self.name, gender=self.gender, language=self.language)


def check_voices(voices: Sequence[VoiceConfig]) -> None:
    """Raises ConfigError for a duplicate id or a name that can't be printed."""
    check_unique("voice", [voice.id for voice in voices])
    for number, voice in enumerate(voices):
        if not voice.name.isprintable():
            raise ConfigError(f"voice[{number}].name: must be printable characters, and no others.")


def check_unique(key: str, ids: Sequence[str]) -> None:
    """Raises ConfigError for a duplicate id in the list of this key."""
    for number, voice_id in enumerate(ids):
        if voice_id in ids[:number]:
            raise ConfigError(f"{key}[{number}]: the id {voice_id} is a duplicate; remove one.")


class BlendPart(Struct, frozen=True):
    """A voice of a blend and its share, above 0; the shares add up to 1."""

    voice_id: str
    share: float


@functools.lru_cache(maxsize=256)  # each request for speech needs those of all blends
def parts_of(recipe: str) -> tuple[BlendPart, ...]:
    """The parts of a recipe, the largest share first, and equal ones in the order of the recipe. The first
    one gives the blend its language and gender. A voice without a weight has 1. Raises ValueError with what a
    recipe must be."""
    weights: dict[str, float] = {}
    for part in recipe.split("+"):
        written = part.removesuffix(")").replace("(", ":", 1) if part.endswith(")") else part
        voice_id, colon, weight = written.partition(":")
        if not voice_id:
            raise ValueError(f"must be voices with their weights, like {EXAMPLE}")
        if colon and (not _WEIGHT.fullmatch(weight) or not float(weight)):
            raise ValueError(f"the weight of {voice_id} must be a number from 0.01 to 999.99, like 2 or 0.5")
        if voice_id in weights:
            raise ValueError(f"{voice_id} must be named once")
        weights[voice_id] = float(weight or 1)
    if not PARTS_MIN <= len(weights) <= PARTS_MAX:
        raise ValueError(f"must be of {PARTS_MIN} to {PARTS_MAX} voices, like {EXAMPLE}")
    total = sum(weights.values())
    found = [BlendPart(voice_id, weight / total) for voice_id, weight in weights.items()]
    return tuple(sorted(found, key=lambda part: -part.share))


def can_make(recipe: str, voice_ids: Container[str]) -> bool:
    """Whether a recipe is one of these voices. False for a stored recipe that this build can't parse."""
    try:
        return all(part.voice_id in voice_ids for part in parts_of(recipe))
    except ValueError:
        return False


def spoken_language(tag: str) -> str:
    """The spoken language, such as zh, yue or en, of a voice's tag, such as zh-CN, zh-HK or en-GB."""
    return "yue" if tag == "zh-HK" else tag.split("-")[0]


def sample_text(tag: str) -> str:
    """What a voice of this language says, so that it can be heard and measured; else in English."""
    return SAMPLES.get(spoken_language(tag), SAMPLES["en"])
