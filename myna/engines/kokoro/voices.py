"""The voices of Kokoro v1.0 that Myna offers, in seven languages, and their styles. The model's own names are
their ids."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from myna.engines.interface import EngineVoice
from myna.engines.kokoro.job import VOICES_FOLDER, StyleShare
from myna.engines.voices import can_make, parts_of

_MIXED_WITH: Final = {"female": "af_heart", "male": "am_michael"}
_MIXED_SOUND: Final = 0.6
_MIXED_PROSODY: Final = 0.1
"""The shares of the English voice where a Mandarin voice speaks English words: see decision 0015."""
_GENDERS: Final = {"f": "female", "m": "male"}
_LANGUAGES: Final = {
    "z": "zh-CN", "a": "en-US", "b": "en-GB", "f": "fr-FR", "e": "es-ES", "i": "it-IT", "p": "pt-BR",
    "h": "hi-IN",
}  # fmt: skip


def _voice(voice_id: str, name: str) -> EngineVoice:
    """The id begins with a letter for the language and one for the gender."""
    return EngineVoice(
        voice_id=voice_id, name=name, gender=_GENDERS[voice_id[1]], language=_LANGUAGES[voice_id[0]]
    )


_MANDARIN: Final = {
    "zf_xiaobei": "晓北", "zf_xiaoxiao": "晓晓", "zf_xiaoyi": "晓伊", "zf_xiaoni": "晓妮",
    "zm_yunxi": "云希", "zm_yunjian": "云健", "zm_yunyang": "云扬", "zm_yunxia": "云夏",
}  # fmt: skip
_ENGLISH: Final = (
    "af_heart", "af_bella", "af_nicole", "af_aoede", "af_kore", "af_sarah", "af_alloy", "af_nova", "af_sky",
    "af_jessica", "af_river", "am_michael", "am_fenrir", "am_puck", "am_echo", "am_eric", "am_liam",
    "am_onyx", "am_adam", "am_santa", "bf_emma", "bf_isabella", "bf_alice", "bf_lily", "bm_george",
    "bm_fable", "bm_lewis", "bm_daniel",
)  # fmt: skip

_OTHERS: Final = (
    "ff_siwis", "ef_dora", "em_alex", "em_santa", "if_sara", "im_nicola", "pf_dora", "pm_alex", "pm_santa",
    "hf_alpha", "hf_beta", "hm_omega", "hm_psi",
)  # fmt: skip

VOICES: Final[tuple[EngineVoice, ...]] = (
    *(_voice(voice_id, name) for voice_id, name in _MANDARIN.items()),
    *(_voice(voice_id, voice_id[3:].title()) for voice_id in (*_ENGLISH, *_OTHERS)),
)
"""The first one is the default voice of a site."""


class KokoroVoice(msgspec.Struct, frozen=True):
    """A voice: its style, and the one for pieces in which both languages are mixed."""

    voice: EngineVoice
    style: tuple[StyleShare, ...]
    mixed: tuple[StyleShare, ...]


def blended(recipe: str, voices: Mapping[str, KokoroVoice]) -> KokoroVoice | None:
    """The voice of a recipe, in the language of its largest part; None for anything else."""
    if not can_make(recipe, voices):
        return None
    parts = [(voices[part.voice_id], part.share) for part in parts_of(recipe)]
    return KokoroVoice(
        voice=parts[0][0].voice,
        style=_weighted((voice.style, share) for voice, share in parts),
        mixed=_weighted((voice.mixed, share) for voice, share in parts),
    )


def _weighted(styles: Iterable[tuple[Sequence[StyleShare], float]]) -> tuple[StyleShare, ...]:
    """The average of styles, each with its share."""
    return tuple(
        StyleShare(part.voice, sound=part.sound * share, prosody=part.prosody * share)
        for style, share in styles
        for part in style
    )


def style_file(model: Path, voice_id: str) -> Path:
    return model / VOICES_FOLDER / f"{voice_id}.bin"


def with_styles(voice: EngineVoice, model: Path) -> KokoroVoice:
    """The voice with its styles. Both languages in one sentence are understood best in a style between a
    voice of each."""
    own = (StyleShare(voice.voice_id, sound=1.0, prosody=1.0),)
    mixes = voice.language.startswith(("zh", "en"))
    if not mixes or not style_file(model, _MIXED_WITH[voice.gender]).is_file():
        return KokoroVoice(voice=voice, style=own, mixed=own)
    return KokoroVoice(
        voice=voice,
        style=own,
        mixed=(
            StyleShare(voice.voice_id, sound=1.0 - _MIXED_SOUND, prosody=1.0 - _MIXED_PROSODY),
            StyleShare(_MIXED_WITH[voice.gender], sound=_MIXED_SOUND, prosody=_MIXED_PROSODY),
        ),
    )
