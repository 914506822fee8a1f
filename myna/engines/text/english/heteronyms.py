"""English words of one spelling and two sounds, spelled so that espeak-ng says the one that is meant."""

import re
from collections.abc import Iterator

from myna.engines.text.english.tables import VERBS
from myna.engines.text.rule import Rule, rule

_PARTS = {
    "OBJECT": (
        "(?:the|a|an|it|them|this|that|these|those|your|my|our|his|her|all|its|their|every|each|up|down|me|"
        "us|him|you)"
    ),
    "AUXILIARY": (
        "(?:to|will|would|can|could|should|must|may|might|shall|please|Please|don't|Don't|not|never|let's|Let's|"
        "and|or|then)"
    ),
    "PAST": (
        "(?:yesterday|last (?:night|week|month|year|summer|winter|spring|fall|time)|ago|earlier today|once|"
        "as a child)"
    ),
}
"""The parts of the patterns below, by their names there."""
_HETERONYMS = r"""
# read, in the past: I read it yesterday
\1_red (?<!\w)(I|[Yy]ou|[Ww]e|[Tt]hey) read(?= [^.!?;]{0,60}\bPAST\b)
\1_red (?<!\w)([Hh]e|[Ss]he|[Ii]t|[Ww]ho|[Nn]obody|[Ee]veryone) read(?!\w)
\1_red (?<!\w)([Ww]as|[Ww]ere|[Bb]een|[Ii]s|[Bb]eing|[Gg]ot|[Ww]ell|'ve|'d) read(?= (?:by|to|aloud|out|in|as))
# close, the verb
\1loze (?:(?<=^)|(?<=[.!?;:,] )|(?<=[\"“(]))([Cc])lose(?= OBJECT\b)
\1_cloze (?<!\w)(AUXILIARY) close(?= (?!to\b|by\b|enough\b|friend|together))
# close, the adjective
\1loce (?<!\w)([Cc])lose(?= (?:relative|famil|contact|call|range|attention|proximity|enough|second|match|race|
    ally|allies|tie|link|encounter|quarters|look|watch|combat|inspection|behind|together))
# live, the adjective
\1_lyve (?<!\w)([Gg]o|[Gg]oes|[Gg]oing|[Ww]ent|[Gg]one|[Ii]s|[Aa]re|[Ww]as|[Ww]atch(?:ed|ing)?|[Ss]hown|
    [Pp]erform(?:s|ed|ing)?|[Bb]roadcast|[Ss]tream(?:s|ed|ing)?|[Pp]lay(?:s|ed|ing)?|[Aa]ired) live(?!\w)
\1yve (?<!\w)([Ll])ive(?= (?:show|music|stream|broadcast|tv|TV|television|concert|event|band|performance|
    audience|coverage|chat|wire|ammunition|update|video|record|action|demo|session|feed|report|album|version|
    game|sport|on air|on stage|on TV|from the|ammo|animal|bait|birth|cattle|fire|crowd|data|score|result|
    virus|photo|blog|orchestra|preview|debate|interview|radio|auction|support|translation)s?)
# lead, the metal
\1ed (?<!\w)([Ll])ead(?=[ -](?:pipe|paint|poison|acid|pencil|batter|weight|shield|free|bullet|ore|level|
    exposure|content|mine|glass|crystal|ball|solder|shot))
\1ed (?<!\w)([Ll])ead(?=,? (?:and|or) (?:zinc|copper|tin|mercury|arsenic|cadmium|silver|asbestos))
\1_led (?<!\w)((?:zinc|copper|tin|mercury|arsenic|cadmium|silver|asbestos),? (?:and|or)|with) lead
    (?=[.,;!?]|$| (?:in|from|poison))
\1_led (?<!\w)((?:made (?:of|from)|contains?|containing|molten|melted|heavy as|tons? of|of)) lead
    (?=[\s.,;!?]|$)(?! (?:the|a|an|to)\b)
\1ed (?<!\w)([Ll])ead(?= (?:is|was) (?:a [a-z]+ metal|toxic|poisonous|heavy|dense|soft|found in water))
# use, the verb
\1ze (?:(?<=^)|(?<=[.!?;:,] )|(?<=[\"“(]))([Uu])se(?= (?!of\b|cases?\b|by\b|is\b|was\b|and\b)[\w$'\"“])
\1_uze (?<!\w)(AUXILIARY|people|who|which|also|just|only|always|often) use(?= (?!of\b|cases?\b)[\w$'\"“])
# wind, wound, tear, bow, dove, minute, bass, resume: the rarer sound
\1ined (?<!\w)([Ww])ind(?= (?:OBJECT\b|through\b|back\b|around\b))
\1ines (?<!\w)([Ww])inds(?= (?:through|its|up|down|around|along))
\1_wownd (?<!\w)([Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey|I|[Rr]oad|[Rr]iver|[Pp]ath) wound(?!\w)
wownd (?<!\w)wound(?= (?:up|down|around|through|its way|back|(?:the|a|his|her|some) (?:clock|watch|bandage|
    rope|cable|string|wire|tape|scarf|thread|yarn)))
\1are (?<!\w)([Tt])ear(?= (?:OBJECT\b|apart\b|off\b|out\b|open\b|into\b|through\b|away\b|at\b|along\b))
\1_tare (?<!\w)((?:[Ww]ear and|[Tt]o|[Dd]on't|[Ww]ill|[Cc]an)) tear(?!\w)
\1are (?<!\w)([Tt])ear(?= in (?:it\b|(?:the|a|an|his|her|my|your|one) (?!(?:\w+ )?eyes?\b)\w))
\1_bough (?<!\w)((?:[Tt]ak(?:e|es|ing)|[Tt]ook) (?:a|his|her|their|its|one last|a final|a deep)|a deep)
    \ bow(?!\w)
\1_bough (?<!\w)(the) bow(?= of the (?:ship|boat|vessel))
\1_bough (?<!\w)(to|must|the ship's) bow(?=[.,;!?]|$| (?:to|before|down|of the (?:ship|boat|vessel)))
\1ough (?<!\w)([Bb])ow(?= (?:to|before|down))
dohv (?<!\w)dove(?= (?:in|into|down|off|under|deep|for|right|head))
\1y_newt (?<!\w)([Mm])inute(?= (?:detail|amount|difference|quantit|particle|trace|change|fraction|crack|
    variation))
\1_bas (?<!\w)((?:[Ss]ea|[Ss]triped|[Ll]argemouth|[Ss]mallmouth|[Bb]lack|[Ff]ish for|[Cc]aught a|
    [Gg]rilled)) bass(?!\w)
\1_résumé (?<!\w)((?:[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Aa]|[Tt]he|[Tt]heir|[Oo]ur)) resume
    (?=[.,;!?]|$| (?:and|is|was|to|for|with|in|on|shows|should|that|looks))
# content, the adjective; produce, import and invalid, the nouns
\1_contennt (?<!\w)([Aa]m|[Ii]s|[Aa]re|[Ww]as|[Ww]ere|[Bb]e|[Ff]e(?:el|els|lt)|[Ss]eem(?:s|ed)?|[Qq]uite|
    perfectly|very|'m|'s|'re) content(?= (?:with|to|just)|[.,;!?]|$)
\1_prohdoose (?<!\w)([Ff]resh|[Ll]ocal|[Ff]arm|[Oo]rganic|[Ss]easonal|[Dd]airy|[Tt]he|of|sell|buy|
    produce) produce
    (?=[.,;!?]|$| (?:is|was|and|from|in|at|aisle|section|market|stand|department))
\1mm-port (?<!\w)([Ii])mport(?= (?:of|dut|tax|tariff|ban|quota|business|licen|market|price|cost|restriction))
\1mm-ports (?<!\w)([Ii])mports
    (?= (?:and exports )?(?:of|rose|fell|are|were|grew|surged|dropped|climbed|declined)\b)
\1mm-ports (?<!\w)(I)mports(?= (?:from|and)\b)
\1_innvalid (?<!\w)([Tt]he|[Aa]n|elderly|bedridden|chronic|lifelong) invalid
    (?= (?:was|is|had|lay|who|for)|[.,;!?]|$)
\1_advoket (?<!\w)([Aa]n|[Tt]he|[Hh]er|[Hh]is|[Aa]n? [a-z]+|strong|leading|[Pp]ublic|[Cc]onsumer) advocate
    (?! for (?:a|the|my|your|change))(?!\w)
\1lternait (?<!\w)([Aa])lternate(?= between)
\1eliberait (?<!\w)([Dd])eliberate(?= (?:on(?! (?:[\w'’]+ ){1,3}part\b)|over|about|for))
"""
"""How to spell a word of two sounds so that espeak-ng says the one that is meant, with _ for a space, and the
pattern in which it is. espeak-ng knows most after `to`, a pronoun or an article; these it gets wrong. A line
that begins with spaces continues the one before, and one with # is a comment."""


def _as_verb(match: re.Match[str]) -> str:
    before, word = (f"{match[2]} ", match[3]) if match[2] else ("", match[1])
    verb = VERBS[word.lower()]
    return before + (verb.capitalize() if word[0].isupper() else verb)


def _respellings(rows: str) -> Iterator[Rule]:
    for row in re.sub("\n +", "", rows).strip().split("\n"):
        if row.startswith("#"):
            continue
        respelling, _, pattern = row.partition(" ")
        for name, part in _PARTS.items():
            pattern = pattern.replace(name, part)
        yield rule(pattern, respelling.replace("_", " "))


_A_VERB = f"(?:{'|'.join(f'[{verb[0].upper()}{verb[0]}]{verb[1:]}' for verb in VERBS)})"
_TWO_SOUNDS = (
    "read|use|close|live|lead|wind|wound|tear|bow|dove|minute|bass|resume|content|produce|import|invalid|"
    "advocate|alternate|deliberate"
)
TWO_SOUNDS = re.compile(rf"(?<![A-Za-z])(?i:{_TWO_SOUNDS}|{'|'.join(VERBS)})")
"""The words that `HETERONYMS` are about; most sentences have none."""
HETERONYMS: tuple[Rule, ...] = (
    *_respellings(_HETERONYMS),
    # Record a video. You should present your ID. But: Progress this year was slow.
    rule(
        rf"(?:(?<=^)|(?<=[.!?;:,] )|(?<=[\"“(]))"
        rf"(?!(?i:progress|conduct|conflict|contract|object) th(?:is|at)\b)"
        rf"({_A_VERB})(?= {_PARTS['OBJECT']}\b)|"
        rf"(?<!\w)({_PARTS['AUXILIARY']}) ({_A_VERB})(?= {_PARTS['OBJECT']}\b)",
        _as_verb,
    ),
)
