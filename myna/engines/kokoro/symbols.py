"""The symbols of the Kokoro v1.0 model and their numbers: IPA, the arrows of Mandarin tones, punctuation.

Source: the vocabulary in the model's published configuration. 0 is the padding at both ends.
"""

from typing import Final

SYMBOLS_MAX: Final = 510
"""In one run of the model: a voice has a style for each count from 0 to 509."""
_ROWS: Final = (
    (1, ";:,.!?"),
    (9, '—…"()“” ̃ʣʥʦʨᵝꭧAI'),
    (31, "O"),
    (33, "Q"),
    (35, "ST"),
    (39, "W"),
    (41, "Yᵊabcdef"),
    (50, "hijklmnopqrstuvwxyzɑɐɒæ"),
    (75, "βɔɕç"),
    (80, "ɖðʤə"),
    (85, "ɚɛɜ"),
    (90, "ɟ"),
    (92, "ɡ"),
    (99, "ɥ"),
    (101, "ɨɪʝ"),
    (110, "ɯɰŋɳɲɴø"),
    (118, "ɸθœ"),
    (123, "ɹ"),
    (125, "ɾɻ"),
    (128, "ʁɽʂʃʈʧ"),
    (135, "ʊʋ"),
    (138, "ʌɣɤ"),
    (142, "χʎ"),
    (147, "ʒʔ"),
    (156, "ˈˌː"),
    (162, "ʰ"),
    (164, "ʲ"),
    (169, "↓"),
    (171, "→↗↘"),
    (177, "ᵻ"),
)  # the number of the first symbol, and the symbols that are numbered from it on

NUMBERS: Final = {symbol: first + at for first, row in _ROWS for at, symbol in enumerate(row)}
