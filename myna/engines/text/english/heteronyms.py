"""English words of one spelling and two sounds, spelled so that espeak-ng says the one that is meant.

espeak-ng knows most of them after `to`, a pronoun or an article; these are the ones that it gets wrong.
"""

from myna.engines.text.rule import Rule, rule

_OBJECT = "(?:the|a|an|it|them|this|that|these|those|your|my|our|his|her|all|its|their|every|each|up|down)"
_AUXILIARY = (
    "(?:to|will|would|can|could|should|must|may|might|shall|please|Please|don't|Don't|not|never|"
    "let's|Let's|and|or|then)"
)
_PAST = (
    "(?:yesterday|last (?:night|week|month|year|summer|winter|spring|fall|time)|ago|earlier today|"
    "once|as a child)"
)

HETERONYMS: tuple[Rule, ...] = (
    # read: I read it yesterday, she read the book.
    rule(rf"(?<!\w)(I|[Yy]ou|[Ww]e|[Tt]hey) read (?=[^.!?;]{{0,60}}\b{_PAST}\b)", r"\1 red "),
    rule(r"(?<!\w)([Hh]e|[Ss]he|[Ii]t|[Ww]ho|[Nn]obody|[Ee]veryone) read(?!\w)", r"\1 red"),
    rule(
        r"(?<!\w)([Ww]as|[Ww]ere|[Bb]een|[Ii]s|[Bb]eing|[Gg]ot|[Ww]ell|'ve|'d) read (?=by|to|aloud|"
        r"out|in|as)",
        r"\1 red ",
    ),
    # close: the verb.
    rule(rf"(?:(?<=^)|(?<=[.!?;:,] )|(?<=[\"“(]))([Cc])lose (?={_OBJECT}\b)", r"\1loze "),
    rule(rf"(?<!\w)({_AUXILIARY}) close (?!to\b|by\b|enough\b|friend|together)", r"\1 cloze "),
    # live: the adjective.
    rule(
        r"(?<!\w)([Gg]o|[Gg]oes|[Gg]oing|[Ww]ent|[Gg]one|[Ii]s|[Aa]re|[Ww]as|[Ww]atch(?:ed|ing)?|"
        r"[Ss]hown|[Pp]erform(?:s|ed|ing)?|[Bb]roadcast|[Ss]tream(?:s|ed|ing)?|[Pp]lay(?:s|ed|ing)?|"
        r"[Aa]ired) live(?!\w)",
        r"\1 lyve",
    ),
    rule(
        r"(?<!\w)([Ll])ive (?=(?:show|music|stream|broadcast|tv|TV|television|concert|event|band|"
        r"performance|audience|coverage|chat|wire|ammunition|update|video|record|action|demo|"
        r"session|feed|report|album|version|game|sport|on air|on stage|on TV|from the)s?)",
        r"\1yve ",
    ),
    # lead: the metal.
    rule(
        r"(?<!\w)([Ll])ead (?=(?:pipe|paint|poison|acid|pencil|batter|weight|shield|free|bullet|ore|"
        r"level|exposure|content|mine|glass|crystal|ball|solder|shot))",
        r"\1ed ",
    ),
    rule(
        r"(?<!\w)((?:made (?:of|from)|contains?|containing|molten|melted|heavy as|tons? of|"
        r"of) )lead(?=[\s.,;!?]|$)(?! (?:the|a|an|to)\b)",
        r"\1led",
    ),
    # wind, wound, tear, bow, dove, minute, bass, resume: the rarer sound by what stands beside.
    rule(rf"(?<!\w)([Ww])ind (?={_OBJECT}\b|through\b|back\b|around\b)", r"\1ined "),
    rule(r"(?<!\w)([Ww])inds (?=through|its|up|down|around|along)", r"\1ines "),
    rule(r"(?<!\w)([Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey|I|[Rr]oad|[Rr]iver|[Pp]ath) wound(?!\w)", r"\1 wownd"),
    rule(r"(?<!\w)wound (?=up|down|around|through|its way|the clock|the watch)", "wownd "),
    rule(
        rf"(?<!\w)([Tt])ear (?={_OBJECT}\b|apart\b|off\b|out\b|open\b|into\b|through\b|away\b|at\b|"
        rf"along\b)",
        r"\1are ",
    ),
    rule(r"(?<!\w)((?:[Ww]ear and|[Tt]o|[Dd]on't|[Ww]ill|[Cc]an) )tear(?!\w)", r"\1tare"),
    rule(
        r"(?<!\w)([Tt])ear (?=in (?:the|his|her|my) (?:shirt|dress|fabric|muscle|pants|jacket|"
        r"sleeve|paper))",
        r"\1are ",
    ),
    rule(
        r"(?<!\w)(take|takes|took|taking|to|must|a deep|the ship's|ship's|the) bow(?=[.,;!?]|$|"
        r" (?:to|before|down|of the (?:ship|boat)))",
        r"\1 bough",
    ),
    rule(r"(?<!\w)([Bb])ow (?=to|before|down)", r"\1ough "),
    rule(r"(?<!\w)dove (?=in|into|down|off|under|deep|for|right|head)", "dohv "),
    rule(
        r"(?<!\w)([Mm])inute (?=detail|amount|difference|quantit|particle|trace|change|fraction|"
        r"crack|variation)",
        r"\1y newt ",
    ),
    rule(
        r"(?<!\w)((?:[Ss]ea|[Ss]triped|[Ll]argemouth|[Ss]mallmouth|[Bb]lack|[Ff]ish for|[Cc]aught a|"
        r"[Gg]rilled) )bass(?!\w)",
        r"\1bas",
    ),
    rule(
        r"(?<!\w)((?:[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Aa]|[Tt]he|[Tt]heir|[Oo]ur) )resume(?=[.,;!?]|$|"
        r" (?:and|is|was|to|for|with|in|on|shows|should|that|looks))",
        r"\1résumé",
    ),
)
