"""French, Spanish, Italian, Portuguese and Hindi: what espeak-ng does not read by itself, in words.

Its numbers and decimals are right in all five: of 601 numbers those of num2words (which has no Hindi) differ
in their sounds, not in their words. It omits most signs without a word, the minus among them, and reads a
date as three numbers.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from myna.engines.text.rule import ROMAN, SPELLINGS, Rule, any_of, applied, roman_value, rule

_UNITS: Final = {
    "fr": "$=dollars|US$=dollars|€=euros|£=livres|¥=yuans|₹=roupies|°C=degrés Celsius|°=degrés|"
    "km/h=kilomètres par heure|"
    "m/s=mètres par seconde|km=kilomètres|m=mètres|cm=centimètres|mm=millimètres|km²=kilomètres carrés|"
    "m²=mètres carrés|m³=mètres cubes|kg=kilos|g=grammes|mg=milligrammes|ml=millilitres|cl=centilitres|"
    "l=litres|L=litres|h=heures|min=minutes|Go=gigaoctets|Mo=mégaoctets|M€=millions d'euros|"
    "Mds €=milliards d'euros",
    "es": "$=dólares|US$=dólares|€=euros|£=libras|¥=yuanes|₹=rupias|°C=grados Celsius|°=grados|"
    "km/h=kilómetros por hora|m/s=metros por segundo|km=kilómetros|m=metros|cm=centímetros|mm=milímetros|"
    "km²=kilómetros cuadrados|m²=metros cuadrados|m³=metros cúbicos|kg=kilos|g=gramos|mg=miligramos|"
    "ml=mililitros|l=litros|L=litros|h=horas|min=minutos|GB=gigabytes|MB=megabytes|M€=millones de euros",
    "it": "$=dollari|US$=dollari|€=euro|£=sterline|¥=yuan|₹=rupie|°C=gradi Celsius|°=gradi|"
    "km/h=chilometri all'ora|"
    "m/s=metri al secondo|km=chilometri|m=metri|cm=centimetri|mm=millimetri|km²=chilometri quadrati|"
    "m²=metri quadrati|m³=metri cubi|kg=chili|g=grammi|mg=milligrammi|ml=millilitri|l=litri|L=litri|h=ore|"
    "min=minuti|GB=gigabyte|MB=megabyte",
    "pt": "$=dólares|US$=dólares|R$=reais|€=euros|£=libras|¥=yuans|₹=rupias|°C=graus Celsius|°=graus|"
    "km/h=quilômetros por hora|m/s=metros por segundo|km=quilômetros|m=metros|cm=centímetros|mm=milímetros|"
    "km²=quilômetros quadrados|m²=metros quadrados|m³=metros cúbicos|kg=quilos|g=gramas|mg=miligramas|"
    "ml=mililitros|l=litros|L=litros|h=horas|min=minutos|GB=gigabytes|MB=megabytes",
    "hi": "$=डॉलर|US$=डॉलर|₹=रुपये|€=यूरो|£=पाउंड|¥=युआन|°C=डिग्री सेल्सियस|°=डिग्री|"
    "km/h=किलोमीटर प्रति घंटा|m/s=मीटर प्रति सेकंड|km=किलोमीटर|m=मीटर|cm=सेंटीमीटर|mm=मिलीमीटर|"
    "km²=वर्ग किलोमीटर|m²=वर्ग मीटर|m³=घन मीटर|kg=किलो|g=ग्राम|mg=मिलीग्राम|ml=मिलीलीटर|l=लीटर|L=लीटर|h=घंटे|"
    "min=मिनट",
}
"""The signs of currencies and units, and their names in the plural."""
_SIGNS: Final = ("-", "to", *"%×÷+=±≥≤><≈≠&#/→²³")
_SIGN_NAMES: Final = {
    "fr": "moins|à|pour cent|fois|divisé par|plus|égale|plus ou moins|supérieur ou égal à|"
    "inférieur ou égal à|supérieur à|inférieur à|environ|différent de|et|numéro|sur|vers|au carré|au cube",
    "es": "menos|a|por ciento|por|entre|más|igual a|más o menos|mayor o igual que|menor o igual que|"
    "mayor que|menor que|aproximadamente|distinto de|y|número|partido por|a|al cuadrado|al cubo",
    "it": "meno|a|per cento|per|diviso|più|uguale a|più o meno|maggiore o uguale a|minore o uguale a|"
    "maggiore di|minore di|circa|diverso da|e|numero|su|a|al quadrato|al cubo",
    "pt": "menos|a|por cento|vezes|dividido por|mais|igual a|mais ou menos|maior ou igual a|"
    "menor ou igual a|maior que|menor que|aproximadamente|diferente de|e|número|sobre|para|ao quadrado|"
    "ao cubo",
    "hi": "माइनस|से|प्रतिशत|गुणा|भाग|प्लस|बराबर|प्लस माइनस|बड़ा या बराबर|छोटा या बराबर|बड़ा|छोटा|लगभग|बराबर नहीं|"
    "और|नंबर|बटा|से|का वर्ग|का घन",
}
"""The names of the signs, in their order."""
_MONTHS: Final = {
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "hi": "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
}
_FRACTIONS: Final = {
    "fr": "1/2=un demi|1/3=un tiers|2/3=deux tiers|1/4=un quart|3/4=trois quarts|½=un demi|¼=un quart|"
    "¾=trois quarts",
    "es": "1/2=un medio|1/3=un tercio|2/3=dos tercios|1/4=un cuarto|3/4=tres cuartos|½=un medio|¼=un cuarto|"
    "¾=tres cuartos",
    "it": "1/2=un mezzo|1/3=un terzo|2/3=due terzi|1/4=un quarto|3/4=tre quarti|½=un mezzo|¼=un quarto|"
    "¾=tre quarti",
    "pt": "1/2=um meio|1/3=um terço|2/3=dois terços|1/4=um quarto|3/4=três quartos|½=um meio|¼=um quarto|"
    "¾=três quartos",
    "hi": "½=आधा|¼=एक चौथाई|¾=तीन चौथाई",
}
_ABBREVIATIONS: Final = {
    "fr": "M.=Monsieur|MM.=Messieurs|Mme=Madame|Mlle=Mademoiselle|Dr=Docteur|Me=Maître|n°=numéro|N°=numéro|"
    "p.=page|av.=avenue|bd=boulevard|etc.=et cetera",
    "es": "Sr.=señor|Sra.=señora|Srta.=señorita|Dr.=doctor|Dra.=doctora|D.=don|Ud.=usted|Uds.=ustedes|"
    "n.º=número|N.º=número|núm.=número|pág.=página|EE. UU.=Estados Unidos|etc.=etcétera",
    "it": "Sig.=signor|Sig.ra=signora|Sig.na=signorina|Dott.=dottor|Dott.ssa=dottoressa|Prof.=professor|"
    "Ing.=ingegner|Avv.=avvocato|n.=numero|N.=numero|pag.=pagina|ecc.=eccetera",
    "pt": "Sr.=senhor|Sra.=senhora|Dr.=doutor|Dra.=doutora|Prof.=professor|pág.=página|Av.=avenida|"
    "etc.=etcétera",
    "hi": "डॉ.=डॉक्टर|श्री.=श्री",
}
"""Before a space and a letter or a digit."""
_AFTER_KIND: Final = "".join(
    rf"(?<!{kind} D\.)" for kind in ("[Vv]itamina", "[Pp]lan", "[Tt]ipo", "[Gg]rupo", "[Cc]lase")
)
"""In vitamina D. the Spanish D. is not a title."""
_ORDINALS: Final = (
    "deuxième troisième quatrième cinquième sixième septième huitième neuvième dixième onzième douzième "
    "treizième quatorzième quinzième seizième dix-septième dix-huitième dix-neuvième vingtième "
    "vingt-et-unième"
)
_FRENCH_ORDINALS: Final = _ORDINALS.split()
"""From the second on."""
_NUMBER: Final = r"[0-9][0-9.,\u00a0\u202f]*(?<![.,\u00a0\u202f])"


def others_in_words(text: str, language: str) -> str:
    """The text of a language such as fr with its signs, units, dates and abbreviations in words."""
    return applied(_rules_of(language), text) if language in _UNITS else text


def _rows(table: str) -> dict[str, str]:
    """What is written, and its name."""
    return {row.partition("=")[0]: row.partition("=")[2] for row in table.split("|")}


def _date(language: str) -> Callable[[re.Match[str]], str]:
    months = _MONTHS[language].split()

    def said(match: re.Match[str]) -> str:
        day, _, month, year = match.groups()
        return (" de " if language in ("es", "pt") else " ").join(
            (day.lstrip("0"), months[int(month) - 1], year)
        )

    return said


def _span(to: str) -> Callable[[re.Match[str]], str]:
    """The ends of a span; other numbers with a dash between them are parts of a name, such as a phone."""

    def said(match: re.Match[str]) -> str:
        low, high = match[1], match[2]
        rises = len(low) < len(high) or (len(low) == len(high) and low < high)
        return f"{low} {to} " if rises else f"{low} "

    return said


def _roman(match: re.Match[str]) -> str:
    return f"{match[1]}{roman_value(match[2])}"


def _french_ordinal(match: re.Match[str]) -> str:
    value = int(match[1]) if match[1].isdigit() else roman_value(match[1])
    return _FRENCH_ORDINALS[value - 2] if 2 <= value <= len(_FRENCH_ORDINALS) + 1 else f"{value}ième"


@cache
def _rules_of(language: str) -> tuple[Rule, ...]:
    units, fractions, short = (
        _rows(_UNITS[language]),
        _rows(_FRACTIONS[language]),
        _rows(_ABBREVIATIONS[language]),
    )
    names: Mapping[str, str] = dict(zip(_SIGNS, _SIGN_NAMES[language].split("|"), strict=True))
    currencies = any_of(sign for sign in units if sign[-1] in "$€£¥₹" and len(sign) < 4)
    french = (
        rule(rf"(?<![\w])([2-9]|1\d|2[01]|{ROMAN})(?:e|ème|è)(?![\wé])", _french_ordinal),
        rule(rf"(?<!\w)([A-ZÉ][a-zéèçï]+ )(?=[IVX]{{2}})({ROMAN})(?!\w)", _roman),
        rule(r"(?<![\w:])(\d{1,2}) ?h ?(\d\d)(?!\w)", r"\1 heures \2"),
    )
    return (
        *SPELLINGS,
        rule(r">=", "≥"),
        rule(r"!=", "≠"),
        rule(r"\^2(?!\d)", "²"),
        rule(r"\^3(?!\d)", "³"),
        *(french if language == "fr" else ()),
        rule(r"(?<![\w:])(\d{1,2})h(\d\d)(?!\w)", r"\1:\2"),
        rule(
            rf"(?<!\w){any_of(short)}{_AFTER_KIND}(?:(?=[ \u00a0]?\w)|(?<=\w\w\.)(?=\s*$))",
            lambda m: short[m[0]],
        ),
        rule(
            r"(?<![\w./-])(0?[1-9]|[12]\d|3[01])([/.-])(0?[1-9]|1[0-2])\2((?:19|20)\d\d)(?![\w/-])",
            _date(language),
        ),
        rule(rf"(?<![\w/]){any_of(fractions)}(?![\w/])", lambda m: fractions[m[0]]),
        rule(rf"({currencies})\s?({_NUMBER})", lambda m: f"{m[2]} {units[m[1]]}"),
        rule(
            rf"(?<![\w.])(?<!\d,)({_NUMBER}\s?{any_of(units)})\s?[-–]\s?(?={_NUMBER}\s?{any_of(units)})",
            rf"\1 {names['to']} ",
        ),
        rule(
            rf"(?<![\w.])(?<!\d,)({_NUMBER})\s?({any_of(units)})(?![\w/²³])",
            lambda m: f"{m[1]} {units[m[2]]}",
        ),
        rule(r"(?:(?<=^)|(?<=[\s(\[×÷*/=<>≤≥≈±:;,]))[-−–](?=\d)(?<!\d [-−–])", f"{names['-']} "),
        rule(r"(?:(?<=\d)|(?<=(?<!\w)[b-z]))\s[-−]\s(?=\d)", f" {names['-']} "),
        rule(r"(?<![\w.,/-])(\d+(?:[.,]\d+)?)\s?[-–](?=(\d+)(?![\w/-]))", _span(names["to"])),
        rule(r"(?<=\w)–(?=\d)", f" {names['to']} "),
        rule(r"\s?%", f" {names['%']}"),
        rule(r"(?:(?<=^)|(?<=[\s(]))~\s?(?=\d)", f"{names['≈']} "),
        rule(r"(?<=\d)\s?[x*]\s?(?=\d)", f" {names['×']} "),
        rule(r"(?<![\w/])(\d{1,3})/(\d{1,3})(?![\w/])", rf"\1 {names['/']} \2"),
        rule(r"#(?=\d)", f"{names['#']} "),
        rule(r"(?<=\w)²", f" {names['²']}"),
        rule(r"(?<=\w)³", f" {names['³']}"),
        rule(r"(?<=\w)\s?\+\s?(?=\d)", f" {names['+']} "),
        rule(r"(?:(?<=^)|(?<=\s))\+(?=\d)", f"{names['+']} "),
        rule(
            r"\s?[×÷=±≥≤≈≠&→]\s?|(?<=[\w)])\s[<>]\s(?=\S)|(?<=[\s\d])[<>](?=\d)",
            lambda m: f" {names[m[0].strip()]} ",
        ),
    )
