"""French, Spanish, Italian, Portuguese and Hindi: what espeak-ng does not read by itself.

Its numbers, decimals and shares are right in all five: of 601 numbers those of num2words (which has no Hindi)
differ in their sounds, not in their words. Times are read as two numbers.
"""

import re
from collections.abc import Mapping
from typing import Final

from myna.engines.text.rule import any_of

_NUMBER: Final = r"[0-9][0-9.,\u00a0\u202f]*"
_NAMES: Final = {
    "fr": "$ dollars|US$ dollars|€ euros|£ livres|¥ yuans|°C degrés Celsius|km/h kilomètres par heure|"
    "km kilomètres|m mètres|cm centimètres|mm millimètres|kg kilos|g grammes|h heures|min minutes",
    "es": "$ dólares|US$ dólares|€ euros|£ libras|¥ yuanes|°C grados Celsius|km/h kilómetros por hora|"
    "km kilómetros|m metros|cm centímetros|mm milímetros|kg kilos|g gramos|h horas|min minutos",
    "it": "$ dollari|US$ dollari|€ euro|£ sterline|¥ yuan|°C gradi Celsius|km/h chilometri all'ora|"
    "km chilometri|m metri|cm centimetri|mm millimetri|kg chili|g grammi|h ore|min minuti",
    "pt": "$ dólares|US$ dólares|R$ reais|€ euros|£ libras|¥ yuans|°C graus Celsius|"
    "km/h quilômetros por hora|km quilômetros|m metros|cm centímetros|mm milímetros|kg quilos|g gramas|"
    "h horas|min minutos",
    "hi": "$ डॉलर|US$ डॉलर|₹ रुपये|€ यूरो|£ पाउंड|¥ युआन|°C डिग्री सेल्सियस|"
    "km/h किलोमीटर प्रति घंटा|km किलोमीटर|m मीटर|cm सेंटीमीटर|mm मिलीमीटर|kg किलो|g ग्राम|h घंटे|min मिनट",
}
"""The signs of currencies and units, and their names in the plural."""


def in_words(text: str, language: str) -> str:
    """The text of a language such as fr-FR with its currencies and units in words after their numbers."""
    rules = _RULES.get(language.partition("-")[0])
    if rules is None:
        return text
    names, before, after = rules
    text = before.sub(lambda found: f"{found[2]} {names[found[1]]}", text)
    return after.sub(lambda found: f"{found[1]} {names[found[2]]}", text)


def _compiled(rows: str) -> tuple[Mapping[str, str], re.Pattern[str], re.Pattern[str]]:
    names = dict(row.split(" ", 1) for row in rows.split("|"))
    currencies = any_of(sign for sign in names if sign[-1] in "$€£¥₹")
    return (
        names,
        re.compile(rf"({currencies})\s?({_NUMBER}(?<![.,]))", re.ASCII),
        re.compile(rf"(?<![\w.])({_NUMBER}(?<![.,]))\s?({any_of(names)})(?![\w/])", re.ASCII),
    )


_RULES: Final = {language: _compiled(rows) for language, rows in _NAMES.items()}
