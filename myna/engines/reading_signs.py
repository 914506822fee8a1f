"""Other ways to write a digit or a letter, put into the plain one that every voice reads: ３, ٣, ③, Ⅲ, Ａ.

Voices pass over most of them without a word. What has a reading of its own, such as ² or 〇, stays.
"""

import unicodedata

import regex

_V1 = regex.VERSION1
_DIGIT = regex.compile(r"[\p{Nd}--[0-9]]", _V1)
# A number in one sign: ③, ⑽, ❸, Ⅲ, ㊂, 〣, ⅛. 〇 is Han; an exponent is no number beside the one before it.
_SIGN = r"[[\p{No}\p{Nl}]--[\p{dt=super}\p{dt=sub}〇½¼¾⅓⅔]]"
_NUMBER = regex.compile(_SIGN, _V1)
_BETWEEN_NUMBERS = regex.compile(rf"(?<={_SIGN})(?=\p{{N}})|(?<=\p{{Nd}})(?={_SIGN})", _V1)
# Full-width letters, full-width signs that are read, Ⓐ, 𝐀, and forms of Han that only old character sets
# told from the usual ones.
_VARIANT = regex.compile(
    r"[[\p{dt=wide}&&[\p{L}＋＝％＄￡￥＆＠]]\p{dt=circle}\p{dt=font}"
    r"[\p{Script=Han}&&[\p{dt=compat}\p{dt=canonical}]]]"
    r"|(?<=[0-9])[．：](?=[0-9])",
    _V1,
)
_LETTER_OR_NUMBER = regex.compile(r"[[\p{L}\p{N}]--\p{Default_Ignorable_Code_Point}]", _V1)

# English voices read these five themselves; Chinese ones don't, or do so in English.
_FRACTIONS = str.maketrans(
    {"½": "二分之一", "¼": "四分之一", "¾": "四分之三", "⅓": "三分之一", "⅔": "三分之二"}
)
_FRACTION_AFTER_NUMBER = regex.compile(r"(?<=\d)(?=[½¼¾⅓⅔])")


def plain(text: str) -> str:
    """`text` with its digits as 0-9, and its letters and Han in their usual form. Nothing is raised."""
    if text.isascii():
        return text
    text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _NUMBER.sub(_in_digits, _BETWEEN_NUMBERS.sub(" ", text))
    plainest: str = _VARIANT.sub(lambda variant: unicodedata.normalize("NFKC", variant[0]), text)
    return plainest


def fractions_in_han(text: str) -> str:
    """½ as 二分之一, 2½ as 2又二分之一."""
    mixed: str = _FRACTION_AFTER_NUMBER.sub("又", text)
    return mixed.translate(_FRACTIONS)


def speakable(text: str) -> bool:
    """There is a letter or a number in the text, in whatever form."""
    return _LETTER_OR_NUMBER.search(plain(text)) is not None


def _in_digits(sign: regex.Match[str]) -> str:
    """The whole number or the fraction (`1/8`) that a sign stands for; others stay."""
    value = unicodedata.numeric(sign[0], 0.5)
    if value.is_integer():
        return str(int(value))
    upper, slash, lower = unicodedata.normalize("NFKC", sign[0]).partition("\N{FRACTION SLASH}")
    return f"{upper}/{lower}" if slash else sign[0]
