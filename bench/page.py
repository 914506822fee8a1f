"""Writes the figures of docs/benchmarks.md, its picture, and the reports in bench/results.

In docs/benchmarks.md only the text between the two marks is replaced.
"""

from pathlib import Path
from typing import Any, NamedTuple

from bench import chart, contenders, goals, reports, results
from bench.results import RESULTS, Table
from pictures import svg

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PICTURE = "benchmarks.svg"
INDEX = "README.md"
BEGIN, END = "<!-- written by `python -m bench page` -->", "<!-- to here -->"
NOT_YET = "Not measured yet."
DATABASES = ("sqlite", "postgresql")
NAMES = {
    contenders.SQLITE: "Myna, SQLite",
    contenders.POSTGRESQL: "Myna, PostgreSQL",
    contenders.POSTGRESQL_2: "Myna, PostgreSQL, two processes",
    contenders.FLOOR: "Myna without a database (floor)",
    contenders.BARE_FLOOR: "plain ASGI proxy",
    contenders.NGINX: "nginx as a proxy",
    contenders.ROLTER: "rolter (Rust), no keys, no books",
    contenders.SMG: "smg (Rust), no keys, no books",
    contenders.FERROGW: "ferrogw (Go), no keys, no books",
    contenders.PORTKEY_GATEWAY: "Portkey gateway",
    contenders.LITELLM_PROXY: "LiteLLM proxy",
    contenders.LITELLM_KEYS: "LiteLLM proxy with virtual keys",
}
DRAWN = (
    contenders.FLOOR, contenders.SQLITE, contenders.POSTGRESQL, contenders.ROLTER, contenders.SMG,
    contenders.FERROGW, contenders.PORTKEY_GATEWAY, contenders.LITELLM_PROXY,
)  # fmt: skip
WIDTH, ROW, TOP, BOTTOM = 720, 34, 44, 14
LABELS, FIGURES = 220, 170
"""The measures of the picture."""
STREAM_HEAD = ["", "first chunk ms", "chunks/s", "CPU ms per chunk", "p99 of delay ms", "KB per stream"]
Results = dict[str, dict[str, Any]]


class Bar(NamedTuple):
    """One contender; `ours` is drawn in the strong colour."""

    name: str
    calls_s: float
    note: str
    ours: bool


def write(page: Path = PAGE, folder: Path = RESULTS) -> None:
    """Raises ValueError if a marker is missing in the page."""
    found = {name: data for name in reports.TITLES if (data := results.read(name, folder))}
    for name, data in found.items():
        _write_report(name, data, folder)
    table = found.get("table", {})
    if table:
        page.with_name(PICTURE).write_text(drawn(table), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} lacks the marks between which the figures go")
    parts = ["## Chat", *_calls(table), *_streams(found.get("stream", {})), *_other(found)]
    figures = "\n\n".join(parts)
    page.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")
    (folder / INDEX).write_text(_index(found, folder), encoding="utf-8")


def drawn(table: dict[str, Any]) -> str:
    """The picture of the page: calls a second at 64 connections, as bars on one linear scale."""
    medians = table["medians"]
    floor = medians.get(contenders.FLOOR, {}).get(goals.AT, {}).get("calls_s")
    bars: list[Bar] = []
    for name in DRAWN:
        if name in medians:
            calls_s = medians[name][goals.AT]["calls_s"]
            note = f"{calls_s / floor:.0%} of the floor" if floor and name != contenders.FLOOR else ""
            ours = name in (contenders.SQLITE, contenders.POSTGRESQL)
            bars.append(Bar(NAMES[name], calls_s, note, ours))
    most = max(bar.calls_s for bar in bars)
    title = "Chat calls per second, 64 connections, one process"
    parts = [svg.text(16, 26, title, more='font-size="14" font-weight="bold"')]
    for number, bar in enumerate(bars):
        y = TOP + number * ROW
        calls = f"{bar.calls_s:,.0f}"
        length = max(1.0, bar.calls_s / most * (WIDTH - LABELS - FIGURES))
        parts += [
            svg.text(LABELS - 10, y + 17, bar.name, anchor="end"),
            svg.box(LABELS, y + 3, length, ROW - 12, "bar" if bar.ours else "other"),
            svg.text(LABELS + length + 8, y + 17, calls, more='font-weight="bold"'),
            svg.text(LABELS + length + 18 + 8 * len(calls), y + 17, bar.note, "faint"),
        ]
    return svg.document(WIDTH, TOP + ROW * len(bars) + BOTTOM, parts)


def _write_report(name: str, data: dict[str, Any], folder: Path) -> None:
    stem = reports.stem(name, data)
    picture = ""
    if name.startswith("grow"):
        picture = f"{stem}.svg"
        database = name.removeprefix("grow-")
        curves = chart.picture(reports.growth_charts(database, data))
        (folder / picture).write_text(curves, encoding="utf-8")
    (folder / f"{stem}.md").write_text(reports.report(name, data, picture), encoding="utf-8")


def _calls(table: dict[str, Any]) -> list[str]:
    """The table of the page and its picture."""
    if not table:
        return [NOT_YET]
    machine = table["machine"]
    where = (
        f"{reports.day(table)}, commit {machine['commit']}, {machine['cores']} cores of {machine['cpu']};"
        " 64 connections, median of the rounds:"
    )
    head = ["", "calls/s", "of the floor", "p50 ms", "p99 ms", "CPU ms per call", "peak memory MB"]
    return [where, str(Table(head, _rows(table))), f"![Calls per second of each contender]({PICTURE})"]


def _rows(table: dict[str, Any]) -> list[list[str]]:
    medians = table["medians"]
    floor = medians.get(contenders.FLOOR, {}).get(goals.AT)
    rows = []
    for name, by_connections in medians.items():
        row = by_connections[goals.AT]
        ratio = f"{row['calls_s'] / floor['calls_s']:.2f}" if floor else "—"
        cpu_ms = row["cpu_s_per_1000"] + row["database_cpu_s_per_1000"]
        rows.append([
            NAMES[name], f"{row['calls_s']:,.0f}", ratio, f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}",
            f"{cpu_ms:.2f}", f"{table['peak_bytes'][name] / reports.MEGA:.0f}",
        ])  # fmt: skip
    return rows


def _streams(found: dict[str, Any]) -> list[str]:
    """The table of streams, once they were measured."""
    if not found:
        return []
    machine, (rounds, seconds) = found["machine"], found["rounds_of_s"]
    where = (
        f"`/openai/v1`, {reports.day(found)}, commit {machine['commit']}; medians of {rounds} rounds of"
        f" {seconds} s. First chunk: one stream. Chunks/s: 64 streams, a chunk sent when the one before has"
        f" arrived. Delay and memory: {found['open_streams']:,} open streams with {found['rate']:,.0f}"
        " chunks/s."
    )
    return ["## Streams", where, str(Table(STREAM_HEAD, _stream_rows(found["medians"])))]


def _stream_rows(medians: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, row in medians.items():
        if name == contenders.DIRECT:
            continue
        loaded = [f"{row['delay_p99_ms']:.1f}", f"{row['kb_per_stream']:.0f}"] if row["open"] else ["—"] * 2
        chunks = f"{row['chunks_s']:,.0f}", f"{row['cpu_ms_per_1000'] / 1000:.3f}"
        rows.append([NAMES[name], f"{row['first_ms']:.1f}", *chunks, *loaded])
    return rows


def _other(found: Results) -> list[str]:
    """Growth, speech and memory, and what missed its goal."""
    table, speech, neural = (found.get(name, {}) for name in ("table", "speech", "neural"))
    growth = {name: found.get(f"grow-{name}", {}) for name in DATABASES}
    by_database = [goals.flat(growth[name], name) for name in DATABASES]
    rows = [
        [ours.what.partition(": ")[2], ours.goal, ours.figure, theirs.figure]
        for ours, theirs in zip(*by_database, strict=True)
    ]
    voices = goals.on_speech(speech) + goals.on_neural_speech(neural)
    single = voices + goals.on_memory(growth["sqlite"], table)
    others = [[goal.what, goal.goal, goal.figure] for goal in single]
    every = goals.all_goals(found)
    open_ = [_open(goal) for goal in every if not goal.met]
    met = sum(goal.met is True for goal in every)
    return [
        "## Growth, speech and memory",
        "Ratios of calls per second, unless a unit is given:",
        str(Table(["", "goal", "SQLite", "PostgreSQL"], rows)),
        str(Table(["", "goal", "figure"], others)),
        f"{met} of {len(every)} goals are met. The others:" if open_ else "All goals are met.",
        *(["\n".join(open_)] if open_ else []),
    ]  # fmt: skip


def _open(goal: goals.Goal) -> str:
    """A line for a goal that is not met."""
    if goal.met is None:
        return f"- {goal.what} (goal: {goal.goal}): not measured."
    return f"- {goal.what}: {goal.figure} (goal: {goal.goal})."


def _index(found: Results, folder: Path) -> str:
    """Every report, the newest first, and the goals."""
    every = goals.all_goals(found)
    titles = "`, `".join(reports.TITLES)
    files = sorted((path for path in folder.glob("[0-9]*.md")), reverse=True)
    listed = [f"- [{path.stem}]({path.name})" for path in files]
    return "\n\n".join([
        "# Benchmark results",
        "Written by `python -m bench page`. A report is named after its date, commit and result"
        f" (`{titles}`). [How to repeat them](../../docs/benchmarks.md),"
        " and [what changed the figures](history.md).",
        "## Reports", "\n".join(listed) or NOT_YET, "## Goals", str(goals.as_table(every)),
    ]) + "\n"  # fmt: skip
