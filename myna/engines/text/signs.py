"""Converts variants of digits and letters to the plain form that every voice reads: ３, ٣, ③, Ⅲ, Ａ.

Voices skip most variants silently. Characters with a different reading, such as ² or 〇, are unchanged.
"""

import unicodedata

import regex

_V1 = regex.VERSION1
_DIGIT = regex.compile(r"[\p{Nd}--[0-9]]", _V1)
# A number in one character: ③, ⑽, ❸, Ⅲ, ㊂, 〣, ⅛. Not 〇, which is Han, and not exponents.
_SIGN = r"[[\p{No}\p{Nl}]--[\p{dt=super}\p{dt=sub}〇½¼¾⅓⅔]]"
_NUMBER = regex.compile(_SIGN, _V1)
_ROMAN = regex.compile("[Ⅰ-Ⅻⅰ-ⅻ]{2,}")
_BETWEEN_NUMBERS = regex.compile(rf"(?<={_SIGN})(?=\p{{N}})|(?<=\p{{Nd}})(?={_SIGN})", _V1)
# Full-width letters and signs, Ⓐ, 𝐀, and compatibility forms of Han.
_VARIANT = regex.compile(
    r"[[\p{dt=wide}&&[\p{L}＋＝％＄￡￥＆＠]]\p{dt=circle}\p{dt=font}"
    r"[\p{Script=Han}&&[\p{dt=compat}\p{dt=canonical}]]]|(?<=[0-9])[．：](?=[0-9])",
    _V1,
)
MEANS = regex.compile(r"[[\p{L}\p{S}\p{N}%&@\\/§¶†‡‰′″]--[`^~|<>˙´¨¯¸]]", _V1)
"""What changes the meaning if it is left out. Marks, quotes and those of Markdown do not."""
_HAN = regex.compile(r"\p{Script=Han}")
_EMOJI = regex.compile(r"\p{Extended_Pictographic}|\p{Emoji_Presentation}")
_LETTER_OR_NUMBER = regex.compile(r"[[\p{L}\p{N}]--\p{Default_Ignorable_Code_Point}]", _V1)

# English voices read these five; Chinese ones don't, or do so in English.
_FRACTIONS = str.maketrans(
    {"½": "二分之一", "¼": "四分之一", "¾": "四分之三", "⅓": "三分之一", "⅔": "三分之二"}
)
_INVISIBLE = regex.compile(r"\p{Cf}")
_CONTROL = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}--[\n\t]]", _V1)
_FRACTION_AFTER_NUMBER = regex.compile(r"(?<=\d)(?=[½¼¾⅓⅔])")
_FORMS = {
    "＜": "<", "＞": ">", "≧": "≥", "≦": "≤", "⩾": "≥", "⩽": "≤", "✕": "×", "✖": "×", "⨯": "×", "∗": "*",
    "／": "/", "﹪": "%", "➕": "+", "➖": "-", "➗": "÷", "∕": "/", "⁄": "/", "∶": ":", "≒": "≈", "≃": "≈",
    "≅": "≈", "﹣": "-", "−": "-", "－": "-", "‐": "-", "‑": "-", "‒": "–", "～": "~", "∼": "~", "〜": "~",
    "―": "—", "＾": "^",
}  # fmt: skip
"""Forms of one sign."""
_SQUARES = {
    "㎡": "m²", "㎢": "km²", "㎠": "cm²", "㎟": "mm²", "㎥": "m³", "㎤": "cm³", "㎦": "km³", "㎏": "kg",
    "㎎": "mg", "㎍": "μg", "㎞": "km", "㎝": "cm", "㎜": "mm", "㎛": "μm", "㎚": "nm", "㎖": "ml", "ℓ": "L",
    "㏄": "cc", "㎐": "Hz", "㎑": "kHz", "㎒": "MHz", "㎓": "GHz", "㎾": "kW", "℃": "°C", "℉": "°F",
    "µ": "μ", "Ω": "Ω", "㏑": "ln", "㏒": "log", "№": "No.", "℡": "电话", "㎧": "m/s",
}  # fmt: skip
"""Signs of several letters, and second codes of a letter."""
_ONE_FORM = str.maketrans({**_FORMS, **_SQUARES})


def visible(text: str) -> str:
    """The text without invisible characters, and with a space in place of each control character."""
    replaced: str = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    return replaced


def plain(text: str) -> str:
    """`text` with its digits as 0-9, and its letters and Han in their usual form. Raises nothing."""
    if text.isascii():
        return text
    text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _ROMAN.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = _NUMBER.sub(_in_digits, _BETWEEN_NUMBERS.sub(" ", text))
    result: str = _VARIANT.sub(lambda variant: unicodedata.normalize("NFKC", variant[0]), text)
    return result


def unified(text: str) -> str:
    """The text with one sign for each meaning, and units in letters: ≧ as ≥, ㎡ as m², ℃ as °C."""
    return text.translate(_ONE_FORM)


def fractions_in_han(text: str) -> str:
    """½ as 二分之一, 2½ as 2又二分之一."""
    mixed: str = _FRACTION_AFTER_NUMBER.sub("又", text)
    return mixed.translate(_FRACTIONS)


def speakable(text: str) -> bool:
    """Whether the text has a letter or a number in any form. Checks each distinct character once."""
    return _LETTER_OR_NUMBER.search(plain("".join(set(text)))) is not None


def kind_of(character: str) -> str:
    """The script by the character's name in Unicode, such as Thai; Emoji; Sign; Han."""
    if _HAN.match(character):
        return "Han"
    if _EMOJI.match(character):
        return "Emoji"
    if not character.isalpha():
        return "Sign"
    return unicodedata.name(character, "Unknown").partition(" ")[0].title()


def _in_digits(sign: regex.Match[str]) -> str:
    """The whole number or the fraction (`1/8`) that the character means; others are unchanged."""
    value = unicodedata.numeric(sign[0], 0.5)
    if value.is_integer():
        return str(int(value))
    upper, slash, lower = unicodedata.normalize("NFKC", sign[0]).partition("\N{FRACTION SLASH}")
    return f"{upper}/{lower}" if slash else sign[0]
