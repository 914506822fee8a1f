"""The symbols of the Kokoro v1.0 model, and the syllables of pinyin in them.

The model was trained on IPA with an arrow for the tone after the vowel: `hao3` is `xau↓`, `zhang1` is
`ꭧa→ŋ`. The neutral tone has no arrow.
"""

import functools
import re
from typing import Final

SYMBOLS_MAX: Final = 510
"""In one run of the model: a voice has a style for each count from 0 to 509."""
_VOCABULARY: Final = (
    '_;:,.!?__—…"()“” ̃ʣʥʦʨᵝꭧAI_____O_Q_ST__W_Yᵊabcdef_hijklmnopqrstuvwxyzɑɐɒæ__βɔɕç_ɖðʤə_ɚɛɜ__ɟ_ɡ______ɥ_'
    "ɨɪʝ______ɯɰŋɳɲɴø_ɸθœ__ɹ_ɾɻ_ʁɽʂʃʈʧ_ʊʋ_ʌɣɤ_χʎ___ʒʔ_______ˈˌː___ʰ_ʲ____↓_→↗↘___ᵻ"
)
"""Each symbol at the place of its number, from the model's published configuration; `_` is no symbol. 0 is
the padding at both ends."""
NUMBERS: Final = {symbol: number for number, symbol in enumerate(_VOCABULARY) if symbol != "_"}


def _table(rows: str) -> dict[str, str]:
    return dict(row.split("=") for row in rows.split())


_INITIALS: Final = _table(
    "b=p p=pʰ m=m f=f d=t t=tʰ n=n l=l g=k k=kʰ h=x j=ʨ q=ʨʰ x=ɕ zh=ꭧ ch=ꭧʰ sh=ʂ r=ɻ z=ʦ c=ʦʰ s=s"
)
_MEDIALS: Final = {"i": "j", "u": "w", "ü": "ɥ"}
_RIMES: Final = _table(
    "a=a| ai=ai| an=a|n ang=a|ŋ ao=au| e=ɤ| ei=ei| en=ə|n eng=ə|ŋ er=ɚ| o=o| ong=ʊ|ŋ ou=ou| i=i| in=i|n "
    "ing=i|ŋ u=u| ü=y| ün=y|n ie=je| üe=ɥe| ian=jɛ|n üan=ɥɛ|n ê=ɛ|"
)
"""The tone is at the bar."""
_WITHOUT_INITIAL: Final = _table("o=ɔ| m=m| n=n| ng=ŋ| hm=hm| hng=hŋ|")
_TONES: Final = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}
_SPELLINGS: Final = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        (r"^yo$", "uo"),
        (r"^wong$", "ong"),
        (r"^yu", "ü"),
        (r"^yi", "i"),
        (r"^y", "i"),
        (r"^wu", "u"),
        (r"^w", "u"),
        (r"^([jqx])u", r"\1ü"),
        (r"v", "ü"),
        (r"^([bpmfl])o$", r"\1uo"),
        (r"iu$", "iou"),
        (r"ui$", "uei"),
        (r"(?<=[^aeiouüyw])un$", "uen"),
    )
)
"""Where the spelling of a syllable differs from its initial and final; the first that matches counts."""
_SYLLABLE: Final = re.compile(r"(zh|ch|sh|[bpmfdtnlgkhjqxrzcs])?([a-zü]+|ê)$")


def is_syllable(pinyin: str) -> bool:
    """Whether `pinyin` is a syllable with the number of its tone that the model has symbols for."""
    return bool(pinyin) and pinyin[-1] in _TONES and _toneless(pinyin[:-1]) is not None


def symbols_of(pinyin: str) -> str:
    """The symbols of a syllable such as `zhong1`, `lv4` or `de5`. Raises ValueError for others."""
    sound = _toneless(pinyin[:-1])
    if sound is None or pinyin[-1] not in _TONES:
        raise ValueError(f"not a syllable: {pinyin}")
    return sound.replace("|", _TONES[pinyin[-1]])


@functools.cache
def _toneless(plain: str) -> str | None:
    """The symbols of a syllable without a tone, with a bar where the tone is."""
    if plain in _WITHOUT_INITIAL:
        return _WITHOUT_INITIAL[plain]
    for pattern, written in _SPELLINGS:
        plain, found = pattern.subn(written, plain)
        if found and written != "ü":
            break
    match = _SYLLABLE.match(plain)
    if match is None:
        return None
    initial, final = match[1] or "", match[2]
    if final == "i" and initial in ("zh", "ch", "sh", "r", "z", "c", "s"):
        return _INITIALS[initial] + "ɨ|"
    medial, rime = _MEDIALS.get(final[0]), _RIMES.get(final[1:])
    sound = _RIMES.get(final) or (medial and rime and medial + rime)
    return sound and _INITIALS.get(initial, "") + sound
