"""Writes the figures of docs/project/voices-measured.md, between its two marks, and its picture."""

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.results import Table
from listen import score
from listen.results import PLAIN, Heard, Listening
from listen.score import Score
from listen.sentences import CHINESE, ENGLISH, EVERYDAY, GROUPS, LONG, MIXED, NUMBERS
from listen.speakers import ESPEAK, KOKORO
from pictures import svg

PAGE = Path(__file__).parents[1] / "docs" / "project" / "voices-measured.md"
PICTURE = "voices-heard.svg"
BEGIN, END = "<!-- written by `make listen` -->", "<!-- to here -->"
NAMES = {KOKORO: "Myna, Kokoro", PLAIN: "the plain library", ESPEAK: "Myna, espeak-ng"}
GOALS = {**dict.fromkeys(CHINESE, 0.05), NUMBERS: 0.06, ENGLISH: 0.02, MIXED: 0.1}
"""Of what Kokoro says, so much may be misheard."""
COLOURS = {KOKORO: "bar", PLAIN: "other", ESPEAK: "box"}
MEGA = 1_000_000
WIDTH, ROW, GAP, TOP, LEFT, RIGHT = 720, 16, 12, 72, 120, 70


def write(found: Listening, page: Path = PAGE) -> None:
    """Raises ValueError where the page has lost its marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} lacks the marks between which the figures go")
    figures = "\n\n".join(figures_of(found))
    page.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")
    page.with_name(PICTURE).write_text(picture(found), encoding="utf-8")


def figures_of(found: Listening) -> Iterator[str]:
    """The paragraphs and tables between the marks."""
    machine = found.machine
    day = time.strftime("%Y-%m-%d", time.gmtime(machine.time))
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    yield (
        f"{day}, commit {machine.commit}, {machine.cores} cores of {machine.cpu}, Python"
        f" {machine.python.partition(' ')[0]}; {versions}. Share of the syllables"
        " and words that were misheard:"
    )
    yield str(by_group(found))
    yield f"![Share of syllables and words that were misheard, by kind of text]({PICTURE})"
    yield from (f"Not measured: {NAMES[family]}: {reason}." for family, reason in found.missing.items())
    yield (
        "Speed, one request at a time. The real-time factor is the time to make a second of sound, which"
        " grows while other programs use the processor; processor time grows less. The plain library leaves"
        " silence at both ends of a sentence, which counts as sound: compare the processor time of a"
        " sentence."
        f" The load average before the run was {found.load_average:.1f}:"
    )
    yield str(speed(found))
    yield "Peak memory, all processes of a kind together:"
    yield str(memory(found))
    if found.voices:
        mandarin, english = (len(found.short[language]) for language in ("zh", "en"))
        yield (
            f"Every voice, from {mandarin} sentences in a Mandarin voice and {english} in an English one. A"
            " rough figure for the choice of a voice: one syllable or word of one sentence is 4 to 20%."
        )
        yield str(by_voice(found, "zh"))
        yield str(by_voice(found, "en"))
        remain = {language: _percent(heard_best(found, language)) for language in found.short}
        yield (
            "With each sentence in the voice in which it was heard best,"
            f" {remain['zh']} remain for the Mandarin voices and {remain['en']} for the English ones. These"
            " are errors of the recogniser, or of the text processing, rather than of a voice."
        )


def by_group(found: Listening) -> Table:
    """A row for each group, a column for each family, and the goal for Kokoro."""
    families = list(found.pairs)
    rows = [
        [
            group,
            f"{len({heard.text for heard in _heard(found, families[0], group)})}",
            f"{_of(found, families[0], group).units}",
            *(_percent(_of(found, family, group)) for family in families),
            f"{GOALS[group]:.0%}",
        ]
        for group in GROUPS
    ]
    rows.append([
        "English, Mandarin voice", "", "",
        *(_percent(_of(found, family, ENGLISH, english=False)) for family in families), "",
    ])  # fmt: skip
    heads = [
        f"{NAMES[family]} (`{mandarin}`, `{english}`)" for family, (mandarin, english) in found.pairs.items()
    ]
    return Table(["", "sentences", "syllables and words", *heads, "goal for Kokoro, at most"], rows)


def speed(found: Listening) -> Table:
    """Times of each family's pair of voices, the last two as medians. The plain library writes a wav, Myna
    answers with the address of an mp3."""
    rows = []
    for family in found.pairs:
        own = [
            heard for heard in found.heard if heard.family == family and heard.voice_id in found.pairs[family]
        ]
        sound_s = sum(heard.seconds for heard in own)
        rows.append([
            NAMES[family],
            f"{sum(heard.took_s for heard in own) / sound_s:.2g}",
            f"{sum(heard.cpu_s for heard in own) / sound_s:.2g} s",
            f"{statistics.fmean(heard.cpu_s for heard in own):.3g} s",
            *(_seconds(heard.first_s for heard in own if heard.group == group) for group in (EVERYDAY, LONG)),
        ])  # fmt: skip
    head = [
        "", "real-time factor", "processor time of a second", "of a sentence", "first sound, everyday",
        "first sound, long",
    ]  # fmt: skip
    return Table(head, rows)


def memory(found: Listening) -> Table:
    rows = [
        [f"`{kind}`" if "." in kind else kind, f"{peak / MEGA:,.0f} MB"]
        for kind, peak in found.peak_bytes.items()
    ]
    return Table(["processes", "peak memory"], rows)


def by_voice(found: Listening, language: str) -> Table:
    """A row for each Mandarin (`zh`) or English (`en`) voice, the best understood first; a column for each
    kind of sentence, where there are several."""
    short = _in_every_voice(found, language)
    spoken = {heard.group for heard in short}
    groups = [group for group in GROUPS if group in spoken] if len(spoken) > 1 else []
    rows = []
    for voice_id in {heard.voice_id: None for heard in short}:
        own = [heard for heard in short if heard.voice_id == voice_id]
        rate = _total(own)
        cells = [_percent(_total([heard for heard in own if heard.group == group])) for group in groups]
        lufs = statistics.median(heard.lufs for heard in own)
        head = [f"`{voice_id}`", found.voices[voice_id], _percent(rate)]
        rows.append((rate.rate, [*head, *cells, f"{lufs:.1f} LUFS"]))
    return Table(["voice", "language", "misheard", *groups, "loudness"], [row for _, row in sorted(rows)])


def heard_best(found: Listening, language: str) -> Score:
    """The errors that remain where each text is in the voice of Myna's with the fewest."""
    short = _in_every_voice(found, language)
    by_text = [[heard for heard in short if heard.text == text] for text in found.short[language]]
    return _total([min(heard, key=lambda one: one.errors) for heard in by_text if heard])


def _in_every_voice(found: Listening, language: str) -> list[Heard]:
    """The results of the short list in the voices of a language."""
    voices = {voice for voice, code in found.voices.items() if code.startswith(language)}
    return [
        heard
        for heard in found.heard
        if heard.family != PLAIN and heard.voice_id in voices and heard.text in found.short[language]
    ]


def picture(found: Listening) -> str:
    """A bar for each group and family."""
    bars: list[str] = [
        svg.text(
            16,
            26,
            "Share of syllables and words that Whisper base misheard",
            more='font-size="14" font-weight="bold"',
        )
    ]
    for number, family in enumerate(found.pairs):
        bars += [
            svg.box(16 + number * 190, 40, 12, 12, COLOURS[family]),
            svg.text(34 + number * 190, 50, NAMES[family]),
        ]
    rates = {(group, family): _of(found, family, group).rate for group in GROUPS for family in found.pairs}
    most = max(0.05, *rates.values())
    y = float(TOP)
    for group in GROUPS:
        bars.append(svg.text(LEFT - 10, y + ROW * len(found.pairs) / 2 + 4, group, anchor="end"))
        for family in found.pairs:
            rate = rates[group, family]
            length = max(1.0, rate / most * (WIDTH - LEFT - RIGHT))
            bars += [
                svg.box(LEFT, y + 2, length, ROW - 4, COLOURS[family]),
                svg.text(LEFT + length + 8, y + ROW - 4, f"{rate:.1%}", "faint"),
            ]
            y += ROW
        y += GAP
    return svg.document(WIDTH, int(y) + 4, bars)


def _of(found: Listening, family: str, group: str, *, english: bool = True) -> Score:
    """The errors of a family's voice for a group; with `english` English text is in the English voice."""
    return _total(_heard(found, family, group, english=english))


def _heard(found: Listening, family: str, group: str, *, english: bool = True) -> list[Heard]:
    wanted = (family, found.pairs[family][group == ENGLISH and english], group)
    return [one for one in found.heard if (one.family, one.voice_id, one.group) == wanted]


def _total(heard: Sequence[Heard]) -> Score:
    """Of a sentence at most all is misheard: a recogniser that is lost may repeat a syllable many times."""
    return score.total(Score(min(one.errors, one.units), one.units) for one in heard)


def _percent(rate: Score) -> str:
    return f"{rate.rate:.1%}" if rate.units else "—"


def _seconds(times: Iterable[float]) -> str:
    found = list(times)
    return f"{statistics.median(found):.2f} s" if found else "—"
