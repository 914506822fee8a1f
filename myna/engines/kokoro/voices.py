"""The voices of Kokoro v1.0 that Myna offers, in seven languages. The model's own names are their ids."""

from typing import Final

from myna.engines.interface import EngineVoice

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
