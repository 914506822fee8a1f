"""Words of the English reader: currencies, units, abbreviations, acronyms, and words beside numbers."""

from typing import Final

from myna.engines.text.rule import any_of, greek_letters, with_powers

CURRENCIES: Final = {
    "US$": "dollar", "A$": "Australian dollar", "AU$": "Australian dollar", "C$": "Canadian dollar",
    "CA$": "Canadian dollar", "HK$": "Hong Kong dollar", "NT$": "Taiwan dollar", "S$": "Singapore dollar",
    "NZ$": "New Zealand dollar", "USD": "US dollar", "EUR": "euro", "GBP": "British pound", "JPY": "yen",
    "CHF": "Swiss franc", "CAD": "Canadian dollar", "AUD": "Australian dollar", "HKD": "Hong Kong dollar",
    "SGD": "Singapore dollar", "CNY": "yuan", "RMB": "yuan", "KRW": "won", "INR": "rupee",
    "Rs": "rupee", "Rs.": "rupee",
    "NZD": "New Zealand dollar", "TWD": "Taiwan dollar", "SEK": "Swedish krona", "NOK": "Norwegian krone",
    "DKK": "Danish krone", "PLN": "zloty", "THB": "baht", "MXN": "Mexican peso", "BRL": "real", "ZAR": "rand",
    "RUB": "ruble", "BTC": "bitcoin", "R$": "real", "JP¥": "yen", "CN¥": "yuan", "$": "dollar", "€": "euro",
    "£": "pound", "¥": "yen", "₩": "won", "₹": "rupee", "₽": "ruble", "₿": "bitcoin", "฿": "baht",
    "₫": "dong", "₱": "peso", "₺": "lira", "₪": "shekel",
}  # fmt: skip
SMALL: Final = {"£": ("penny", "pence")}
"""The hundredth part of a currency, one and several; others are cents."""
UNCHANGED: Final = frozenset(("yen", "yuan", "won", "baht", "dong"))
"""Currencies without a plural."""
SCALES: Final = {
    "k": "thousand", "K": "thousand", "M": "million", "m": "million", "mn": "million", "B": "billion",
    "b": "billion", "bn": "billion", "T": "trillion", "tn": "trillion",
}  # fmt: skip

_LENGTHS: Final = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "μm": "micrometer",
    "nm": "nanometer", "ft": "foot", "in": "inch", "inch": "inch", "yd": "yard", "mi": "mile",
    "nmi": "nautical mile", "Å": "angstrom",
}  # fmt: skip
UNITS: Final = {
    **with_powers(_LENGTHS, "square ", "cubic "),
    "sq in": "square inch", "sq mi": "square mile", "sq km": "square kilometer", "sq yd": "square yard",
    "sq ft": "square foot", "sqft": "square foot", "sq m": "square meter", "sqm": "square meter",
    "ha": "hectare", "kg": "kilogram", "g": "gram", "mg": "milligram", "μg": "microgram",
    "mcg": "microgram", "ug": "microgram", "lb": "pound", "lbs": "pound", "oz": "ounce", "t": "ton",
    "L": "liter", "l": "liter", "dL": "deciliter", "cl": "centiliter", "ml": "milliliter", "mL": "milliliter",
    "gal": "gallon", "qt": "quart", "pt": "pint", "tsp": "teaspoon", "tbsp": "tablespoon",
    "fl oz": "fluid ounce", "yds": "yard", "qts": "quart", "Tbsp": "tablespoon", "pts": "point",
    "s": "second", "sec": "second", "secs": "second", "ms": "millisecond", "μs": "microsecond",
    "ns": "nanosecond", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour",
    "yr": "year", "yrs": "year", "mo": "month", "wk": "week",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz",
    "THz": "terahertz", "W": "watt", "mW": "milliwatt", "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt",
    "Wh": "watt hour", "kWh": "kilowatt hour", "MWh": "megawatt hour", "V": "volt", "mV": "millivolt",
    "kV": "kilovolt", "mA": "milliamp", "A": "amp", "Ah": "amp hour", "mAh": "milliamp hour", "Ω": "ohm",
    "kΩ": "kilohm", "F": "farad", "μF": "microfarad", "N": "newton", "kN": "kilonewton", "Nm": "newton meter",
    "Pa": "pascal", "hPa": "hectopascal", "kPa": "kilopascal", "MPa": "megapascal", "bar": "bar",
    "bbl": "barrel", "kn": "knot", "kts": "knot", "knots": "knot", "cu ft": "cubic foot", "ng": "nanogram",
    "μL": "microliter",
    "μl": "microliter", "mSv": "millisievert", "μSv": "microsievert", "GWh": "gigawatt hour",
    "TWh": "terawatt hour", "kVA": "kilovolt ampere", "μA": "microamp", "MΩ": "megohm", "GPa": "gigapascal",
    "Mbit": "megabit", "kbit": "kilobit", "Gbit": "gigabit", "GiB": "gibibyte", "MiB": "mebibyte",
    "KiB": "kibibyte", "ft-lb": "foot pound", "ft·lb": "foot pound", "lbf": "pound force", "keV":
    "kiloelectronvolt", "MeV": "megaelectronvolt", "nF": "nanofarad", "pF": "picofarad", "mH": "millihenry",
    "psi": "P S I", "atm": "atmosphere", "mmHg": "millimeter of mercury", "J": "joule", "kJ": "kilojoule",
    "MJ": "megajoule", "cal": "calorie", "kcal": "kilocalorie", "eV": "electron volt", "mol": "mole",
    "mmol": "millimole", "lx": "lux", "lm": "lumen", "dB": "decibel", "rpm": "R P M",
    "bpm": "beat per minute", "bps": "basis point", "bp": "basis point", "pp": "percentage point",
    "fps": "F P S", "dpi": "D P I", "ppm": "parts per million", "mph": "mile per hour",
    "kph": "kilometer per hour", "kmh": "kilometer per hour", "mpg": "mile per gallon",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "B": "byte", "kB": "kilobyte",
    "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte",
    "Kbps": "kilobits per second", "kbps": "kilobits per second", "Mbps": "megabits per second",
    "Gbps": "gigabits per second", "Mb": "megabit", "Gb": "gigabit",
    "MP": "megapixel", "px": "pixel", "K": "K", "s²": "second squared", "s^2": "second squared",
}  # fmt: skip
"""One of each unit. `K` is thousand or Kelvin, and said as the letter."""
SPACED_ONLY: Final = frozenset(("in", "A", "t", "B", "F", "pt", "T", "K"))
"""Signs that are also words or endings of names: these need a space or more context, see `amounts.py`."""
_IRREGULAR: Final = {"foot": "feet", "inch": "inches", "lux": "lux", "century": "centuries"}

ABBREVIATIONS: Final = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Mx": "Mix", "Prof": "Professor", "Sgt": "Sergeant",
    "Lt": "Lieutenant", "Capt": "Captain", "Cpt": "Captain", "Cmdr": "Commander", "Gen": "General",
    "Col": "Colonel", "Maj": "Major", "Cpl": "Corporal", "Pvt": "Private", "Adm": "Admiral",
    "Sen": "Senator", "Rep": "Representative", "Gov": "Governor", "Pres": "President", "Rev": "Reverend",
    "Hon": "Honorable", "Rt": "Right", "Rm": "Room", "Ph": "Phone", "Fr": "Father", "Mt": "Mount",
    "Ft": "Fort", "Pt": "Point", "feat": "featuring", "Jr": "Junior",
    "Sr": "Senior", "Esq": "Esquire", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane",
    "Hwy": "Highway", "Pkwy": "Parkway", "Sq": "Square", "Apt": "Apartment", "Bldg": "Building",
    "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Bros": "Brothers",
    "Assoc": "Association", "Co": "Company", "co": "company", "Pls": "Please", "pls": "please",
    "ea": "each", "def": "defeated", "hwy": "highway", "Acct": "Account", "Ste": "Suite",
    "Temp": "Temperature", "Asst": "Assistant", "Mgr": "Manager", "Attn": "Attention", "attn": "attention",
    "pkg": "package", "doz": "dozen", "Fl": "Floor", "Calif": "California", "Fla": "Florida", "Tex": "Texas",
    "Ariz": "Arizona", "Conn": "Connecticut", "Mich": "Michigan", "Minn": "Minnesota", "Ore": "Oregon",
    "Tenn": "Tennessee", "Wis": "Wisconsin", "Okla": "Oklahoma", "Colo": "Colorado",
    "Dept": "Department", "dept": "department", "Univ": "University", "Inst": "Institute", "vs": "versus",
    "etc": "et cetera", "approx": "approximately", "Approx": "Approximately", "Rte": "Route",
    "est": "established", "Est": "Established", "max": "maximum",
    "Max": "maximum", "min": "minimum", "avg": "average", "Avg": "average", "misc": "miscellaneous",
    "govt": "government", "Govt": "Government", "incl": "including", "excl": "excluding", "esp": "especially",
    "ext": "extension", "Ext": "Extension", "tel": "telephone", "Tel": "Telephone", "temp": "temperature",
    "qty": "quantity", "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June",
    "Jul": "July", "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October",
    "Nov": "November", "Dec": "December", "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday",
    "Wed": "Wednesday", "Thu": "Thursday", "Thur": "Thursday", "Thurs": "Thursday", "Fri": "Friday",
    "Sat": "Saturday", "Sun": "Sunday", "cf": "compare", "viz": "namely", "ca": "circa", "al": "al",
    "ed": "edition", "repr": "reprint", "orig": "originally", "intl": "international", "natl": "national",
    "mfg": "manufacturing", "hrs": "hours", "yrs": "years", "mo": "month", "wk": "week", "Messrs": "Messrs",
}  # fmt: skip
"""Before a full stop, which belongs to them."""
_WORDS_TOO: Final = "Max Sun Sat Mar Wed Mon max min temp ed al mo Pt est"
SAME_WORDS: Final = frozenset(_WORDS_TOO.split())
"""Those that are words at the end of a text."""
_ENDS: Final = "Co Inc Ltd Corp Bros Fri ext etc Jr Sr Esq Rep Sq Ave Blvd Rd Ln Hwy Pkwy hrs yrs"
ENDING_SENTENCES: Final = SAME_WORDS.union(_ENDS.split())
"""Those whose full stop may end a sentence."""
NUMBERED: Final = {
    "no": "number", "nos": "numbers", "fig": "figure", "figs": "figures", "vol": "volume", "vols": "volumes",
    "ep": "episode", "op": "opus", "pt": "part", "sc": "scene", "sec": "section", "sect": "section",
    "art": "article", "para": "paragraph", "ch": "chapter", "chap": "chapter", "pp": "pages", "p": "page",
    "rt": "route", "rte": "route", "eq": "equation", "eqs": "equations", "tab": "table", "ref": "reference",
    "refs": "references", "chs": "chapters", "thm": "theorem", "lv": "level", "lvl": "level",
}  # fmt: skip
"""Abbreviations before a number alone."""
BEFORE_NUMBERS: Final = SAME_WORDS.union(
    NUMBERED, ("Fri", "ext", "c", "Rm", "Hwy", "Rte", "Apt", "apt", "Ste")
)
"""Those whose full stop ends no sentence before a number."""
WITH_STOPS: Final = {
    "i.e.": "that is", "e.g.": "for example", "I.e.": "that is",
    "E.g.": "for example", "a.k.a.": "A K A", "a.m.": "A M", "p.m.": "P M",
    "A.M.": "A M", "P.M.": "P M", "Ph.D.": "P H D", "Ph.D": "P H D", "PhD": "P H D", "PhDs": "P H D's",
    "M.D.": "M D", "B.A.": "B A", "YoY": "year over year", "U.S.A.": "U S A", "U.S.": "U S", "U.K.": "U K",
    "U.N.": "U N", "E.U.": "E U", "D.C.": "D C", "V.P.": "V P", "p.a.": "per annum",
    "No. of": "number of", "no. of": "number of", "Sec. of": "Secretary of",
    "Ret.": "retired", "w/out": "without", "B.Sc.": "B S C", "M.Sc.": "M S C", "B.Ed.": "B ed",
    "B.C.": "B C", "A.D.": "A D", "P.S.": "P S", "R.I.P.": "R I P", "P.O.": "P O", "L.A.": "L A",
    "N.Y.": "N Y", "c/o": "care of", "w/o": "without", "w/": "with ", "b/c": "because", "n/a": "N A",
    "y/y": "year on year", "q/q": "quarter on quarter", "m/m": "month on month",
    "N/A": "N A", "and/or": "and or", "24/7": "twenty four seven",
    "24/7/365": "twenty four seven three sixty five", "9/11": "nine eleven",
}  # fmt: skip
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
SHORT_MONTHS: Final = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
MONTH: Final = f"(?:{any_of(MONTHS)}|(?:{SHORT_MONTHS})\\.?)"
OPERATORS: Final = {
    "+": "plus", "×": "times", "*": "times", "÷": "divided by", "=": "equals", "≈": "is approximately",
    "≠": "is not equal to", "≥": "is greater than or equal to", "≤": "is less than or equal to",
    ">": "is greater than", "<": "is less than", "±": "plus or minus", "→": "to", "∈": "in",
    "≫": "is much greater than", "≪": "is much less than", "≡": "is identical to", "∝": "is proportional to",
}  # fmt: skip
GREEK: Final = greek_letters(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau "
    "upsilon phi chi psi omega"
)
NAMED_SIGNS: Final = {
    "★": "star", "♭": "flat", "♯": "sharp",
    "∞": "infinity", "√": "the square root of", "∛": "the cube root of", "∑": "the sum of",
    "∏": "the product of", "∫": "the integral of", "∂": "partial", "∇": "nabla", "∠": "angle", "∉": "not in",
    "∪": "union", "∩": "intersection", "⊂": "subset of", "⊆": "subset of", "⊃": "superset of",
    "⊇": "superset of", "∧": "and", "∨": "or", "¬": "not", "∀": "for all", "∃": "there exists",
    "∅": "the empty set", "⇒": "implies", "⇔": "if and only if", "←": "left arrow", "↑": "up arrow",
    "↓": "down arrow", "↔": "left right arrow", "¢": "cents", "$": "dollars", "€": "euros", "£": "pounds",
    "¥": "yen", "₩": "won", "₹": "rupees", "₽": "rubles", "₿": "bitcoin", "₪": "shekels", "§": "section",
    "¶": "paragraph", "©": "copyright", "®": "registered", "™": "trademark", "°": "degrees", "%": "percent",
    "‰": "per mille", "@": "at", "\\": "backslash", "†": "dagger", "‡": "double dagger", "²": "squared",
    "³": "cubed",
}  # fmt: skip
BOOKS: Final = (
    "Genesis|Exodus|Leviticus|Numbers|Psalms?|Proverbs|Isaiah|Jeremiah|Matthew|Mark|Luke|John|Acts|Romans|"
    "Corinthians|Galatians|Ephesians|Hebrews|James|Peter|Revelation"
)
"""Chapter and verse follow these."""
BEARINGS: Final = {"N": "north", "S": "south", "E": "east", "W": "west"}
NAMES: Final = (
    "Room|Flight|Route|Highway|Hwy\\.?|Interstate|Suite|Apartment|Nokia|Bus|Boeing|Airbus|Gate|Porsche|"
    "Peugeot|Ferrari|Xbox|Office|chmod|BMW|Channel|Error|error|HTTP|Box|Unit|Building|Model|Exit|Train|Form|Intel|"
    "Ryzen|Area code|[Pp]ort|[Ss]tatus|[Rr]oom|Locker|Cabin|Platform|Studio|[Ee]xtension"
)
"""The number after these is a name: three digits and more are said in pairs."""
BY_ONE_AFTER: Final = (
    "[Cc]all|[Dd]ial(?:l?ed)?|[Rr]ing|[Pp]hone|[Tt]el(?:ephone|\\.)?|[Ff]ax|[Mm]obile|[Tt]ext(?: [A-Z]+ to)?|"
    "[Hh]otline|[Cc]ode|PIN|[Pp]in|ID|[Ee]xt(?:ension|\\.)?|[Zz]ip|ZIP|number is|number:|"
    "[Pp]asscode|[Pp]assword|OTP|[Aa]ccount|[Aa]cct\\.?|[Oo]rder|[Ss]erial|[Ii]nvoice|[Tt]racking|"
    "[Cc]onfirmation|[Rr]eference|[Rr]ef|[Pp]late|[Ee]nding (?:in|with)|[Ee]nds (?:in|with)|"
    "[Ll]ast (?:four|4)(?: digits)?|ISBN|IMEI|EIN|SSN|"
    r"(?<=(?:[Cc]all|[Dd]ial) \d{3} )or|(?<=\b911 )or"
)
"""Patterns of words after which a number is said by its digits, and may be in groups."""
VERBS: Final = {
    "record": "rekord", "present": "prezent", "perfect": "perfecct", "contract": "contractt",
    "insult": "insullt", "conflict": "conflickt", "rebel": "rebell", "permit": "permitt", "desert": "dessert",
    "export": "exportt", "conduct": "conductt", "convict": "convickt", "project": "projeckt",
    "object": "objeckt", "progress": "progresss", "separate": "sepperate", "house": "howz",
    "excuse": "exkewse", "attribute": "attribbyute", "upset": "upsett", "refund": "refundd",
    "transfer": "transfur", "duplicate": "duplicait", "increase": "inkreece", "estimate": "estimait",
    "moderate": "moderait", "abuse": "abuze", "decrease": "dikreece",
}  # fmt: skip
"""How to spell verbs that espeak-ng says as the noun or adjective of the same spelling."""
ROMAN_AFTER: Final = (
    "World War|Chapter|Part|Book|Volume|Vol|Act|Scene|Section|Article|Phase|Stage|Type|Level|Class|Grade|"
    "Title|Appendix|Episode|Season|Super Bowl|Mark|Rocky|Final Fantasy|Star Wars|Schedule|Table|Figure|"
    "Division|"
    "Group|Tier|Unit|Version|Lesson|Vatican|Apollo|Saturn|Windows|Factor|Category|Annex|Step|Round"
)
MONARCHS: Final = (
    "Henry|Louis|George|Elizabeth|Edward|William|Charles|James|Richard|Philip|Henri|Napoleon|Nicholas|"
    "Catherine|Peter|Alexander|Frederick|Wilhelm|Gustav|Carl|Karl|Otto|Pius|John Paul|Benedict|Francis|Paul|"
    "Leo|Gregory|Innocent|Clement|Urban|Ivan|Christian|Haakon|Juan Carlos|Felipe|Ramses|Ptolemy|Cleopatra|"
    "Mary|Victoria|Margrethe|Beatrix|Albert|Leopold|Baldwin|Joseph|Ferdinand|Pope John|Rama|Thutmose"
)
_AS_WORDS: Final = (
    "NASA NATO UNESCO UNICEF OPEC AIDS RAM ROM SIM PIN GIF COVID SARS JSON YAML CUDA BIOS DOS ASEAN APEC "
    "LASER RADAR SONAR SCUBA LAN WAN ZIP WAV DOM VOIP OPEC RAID JPEG MPEG GMAT LSAT IKEA LEGO TOEFL FIFA "
    "UEFA ARM NAFTA NASDAQ SWAT FEMA OSHA NIMBY YOLO"
)
AS_WORDS: Final = frozenset(_AS_WORDS.split())
"""Acronyms that are said as words."""
_SPELLED: Final = (
    "AI API APR ATA ATM AWS BBC CAO CEO CFO CIA CIO COO CPA CPU CTO DIY DNA DOJ DUI EPA ESL ETA EU FAQ "
    "FBI FDA FIA FYI GDP GOP GPA GPU GUI HIV IBM ICU ID IDE IMF IOU IP IPA IPO IQ ISO IUD LA LED MBA MIT "
    "MOU MRI NBA NCAA NFL NHL NPC NRA NYU OCR OECD OS OEM PA PC PTA QA RIP RNA ROI RSVP SAP SEO SOS SSA "
    "SUV TBA TSA UAE UCLA UFC UFO UI UK UN UPS URI URL US USA USB USC USD USSR UTC UX VIP VPN WTO XML "
    "YMCA AOL ESPN IRS ISP IT ADHD AM PM ABC ACLU AMD APA BA EA GE HBO IEEE IOC OCD PBS POV POW PR UV EV "
    "AC DC ECB RAF IRA ETF UAV AMA USDA IAEA ICU UCL NGO EEG ECG EKG ATP IVF NIH OMG LOL IMO ASAP EDT EST "
    "AD BC CE BCE UTF AES RSA USPS EUR GBP JPY AUD SRAM SRE VLAN"
)
SPELLED: Final = frozenset(_SPELLED.split())
"""Acronyms with a vowel that are said by their letters; those without a vowel always are."""
_WORDS_OF_TWO: Final = (
    "AH AM AN AS AT BE BY DO GO HA HE HI HO IF IN IS IT LO MA ME MY NO OF OH OK ON OR OX PA SO TO UP US WE YE"
)
_WORDS_OF_THREE: Final = (
    "ACE ACT ADA ADD AGE AGO AHA AID AIM AIR ALE ALL AMY AND ANN ANY APE APP ARC ARE ARK ARM ART ASH ASK ATE "
    "AVA AWE AXE EAR EAT EEL EGG EGO ELF ELK ELM EMU END EON ERA EVA EVE EYE IAN ICE ICY IDA ILL INK INN ION "
    "ITS IVY OAK OAR OAT ODD OFF OIL OLD ONE OPT ORE OUR OUT OWE OWL OWN UGH USE"
)
SHORT_WORDS: Final = frozenset((*_WORDS_OF_TWO.split(), *_WORDS_OF_THREE.split()))
"""Words of two letters, and of three that begin with a vowel. Other capitals of that kind are an acronym."""
_BEGINNINGS: Final = (
    "BL BR CH CL CR CZ DR DW FJ FL FR GH GL GN GR KH KN KL KR LL PH PL PR PS QU RH SC SH SK SL SM SN SP SQ "
    "SR ST SW TH TR TS TW VL WH WR"
)
_ENDINGS: Final = (
    "BB BS BT CH CK CS CT DD DS FF FS FT GG GH GN GS HT HS KS LB LD LF LK LL LM LP LS LT MB MN MP MS MT NC "
    "ND NG NK NN NS NT NX PH PS PT RB RD RF RG RK RL RM RN RP RR RS RT SH SK SM SP SS ST TH TS TT TZ WD WK "
    "WL WN WS XT ZZ"
)
BEGINNINGS, ENDINGS = _BEGINNINGS.split(), _ENDINGS.split()
"""Two consonants that a word begins or ends with. Capitals that have others are an acronym."""
ELEMENTS: Final = (
    "H|He|Li|Be|B|C|N|O|F|Ne|Na|Mg|Al|Si|P|S|Cl|Ar|K|Ca|Ti|Cr|Mn|Fe|Co|Ni|Cu|Zn|As|Se|Br|Kr|Ag|Cd|Sn|I|Xe|Ba|"
    "W|Pt|Au|Hg|Pb|U"
)
SPOKEN_ENDINGS: Final = frozenset(("json", "zip", "tar", "doc", "log", "gif", "go", "java", "yaml", "toml"))
FILE_ENDINGS: Final = (
    "txt|pdf|doc|docx|xls|xlsx|csv|json|xml|html|css|js|ts|py|rs|go|java|cpp|sh|md|yml|yaml|toml|ini|log|png|"
    "jpg|jpeg|gif|svg|mp3|mp4|wav|zip|tar|gz|exe|dll|apk|sql"
)


def plural_unit(one: str) -> str:
    """Several of a unit: miles per hour, degrees Celsius, square feet."""
    head, of, rest = one.partition(" per ")
    for joint in (" Celsius", " Fahrenheit", " of mercury", " squared"):
        if head.endswith(joint):
            return f"{head.removesuffix(joint)}s{joint}"
    words, _, last = head.rpartition(" ")
    if last.isupper() or last.endswith(("s", "hertz")):
        return one
    return f"{words} {_IRREGULAR.get(last, last + 's')}".strip() + of + rest
