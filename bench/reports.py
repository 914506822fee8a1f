"""The full tables of a run, one Markdown file for each result."""

import time
from typing import Any

from bench import contenders, parts
from bench.chart import Chart
from bench.results import Table

MEGA = 1e6
FULL_ROWS = 10**7
TITLES = {
    "table": "Chat: calls per second of every contender",
    "parts": "Chat: time per layer",
    "grow-sqlite": "Growth on SQLite",
    "grow-postgresql": "Growth on PostgreSQL",
    "speech": "Speech",
    "neural": "Speech by Kokoro",
    "stream": "Streams of chat",
}

NEURAL_WORK = {
    "model": "a run of the model",
    "child": "a process of Kokoro, from phonemes to PCM",
    "POST /tts": "POST /tts, from text to mp3",
}


def stem(result: str, found: dict[str, Any]) -> str:
    """The report's file name without its ending: date, commit, result."""
    return f"{day(found)}-{found['machine']['commit']}-{result}"


def day(found: dict[str, Any]) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(found["machine"]["time"]))


def command(result: str, found: dict[str, Any]) -> str:
    """The command that repeats this measurement."""
    if result == "parts":
        return "python -m bench parts"
    rounds, seconds = found["rounds_of_s"]
    words = ["python -m bench", result.partition("-")[0], f"--rounds {rounds} --seconds {seconds}"]
    if result.startswith("grow"):
        minutes = found["memory"][-1]["seconds"] / 60
        words += ["--full"] * (max(map(int, found["curves"]["rows"])) == FULL_ROWS)
        words += [f"--minutes {minutes:.0f}"] + ["--postgresql"] * result.endswith("postgresql")
    return " ".join(words)


def report(result: str, found: dict[str, Any], picture: str = "") -> str:
    """The page of one result. `picture` is the file of its growth charts."""
    body = _growth(found, picture) if result.startswith("grow") else _BODIES[result](found)
    return "\n\n".join([f"# {TITLES[result]}", f"Command: `{command(result, found)}`", *body]) + "\n"


def comparison_rows(table: dict[str, Any]) -> Table:
    """A line for each contender and number of connections, and one for each that is missing."""
    floor = table["medians"].get(contenders.FLOOR, {})
    rows = []
    for name, by_connections in table["medians"].items():
        for many, row in by_connections.items():
            ratio = f"{row['calls_s'] / floor[many]['calls_s']:.2f}" if many in floor else "—"
            database = f" + {row['database_cpu_s_per_1000']:.3f}" if row["database_cpu_s_per_1000"] else ""
            figures = f"{row['calls_s']:,.0f}", ratio, f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}"
            cpu_s = f"{row['cpu_s_per_1000']:.3f}{database}", f"{table['peak_bytes'][name] / MEGA:.0f}"
            rows.append([name, many, *figures, *cpu_s, f"{row['failed_share']:.1%}"])
    rows += [[name, "missing", *[""] * 7] for name in table["missing"]]
    head = "contender | conn | calls/s | of floor | p50 ms | p99 ms | CPU s/1,000 | peak MB | failed"
    return Table(head.split(" | "), rows)


def _comparison(table: dict[str, Any]) -> list[str]:
    meanings = "\n".join(f"- `{name}`: {contenders.MEANINGS[name]}." for name in table["medians"])
    missing = "\n".join(f"- `{name}` is missing: {reason}." for name, reason in table["missing"].items())
    commits = table["commits"]
    bare = (
        f"Bare SQLite commits in the same run: {commits['commits_s']:,.0f} per second,"
        f" median {commits['ms']:.2f} ms."
    )
    if pair_ms := commits.get("pair_ms"):  # results of earlier runs have none
        bare += (
            f" The two commits of a call (charge and keep), alone on one thread:"
            f" {pair_ms:.2f} ms, {pair_ms / commits['ms']:.1f} bare commits."
        )
    beside = "After a `+`: the CPU time of the database server."
    parts = [_setting(table), str(comparison_rows(table)), f"{bare} {beside}", meanings]
    return [*parts, missing] if missing else parts


def _parts(split: dict[str, Any]) -> list[str]:
    where = f"One core of {split['machine']['cores']}, commit {split['machine']['commit']}."
    words = (
        "Each layer alone, without a socket, with an upstream that answers at once; minimum of many tries."
        " Indented layers are part of the one above. The databases are in memory: no disk is involved."
    )
    return [f"{where} {words}", str(parts.table(split))]


def _setting(found: dict[str, Any]) -> str:
    machine, (rounds, seconds) = found["machine"], found["rounds_of_s"]
    layout = "; ".join(f"{name} on {', '.join(map(str, on))}" for name, on in machine["layout"].items())
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"{day(found)}, commit {machine['commit']}: {machine['cores']} cores of {machine['cpu']},"
        f" {machine['kernel']}, Python {machine['python']}, {machine['filesystem']}. Cores: {layout}."
        f" Medians of {rounds} rounds of {seconds} s. Versions: {versions}."
    )


def growth_charts(database: str, found: dict[str, Any]) -> list[Chart]:
    """A chart for each curve, and one for the reads."""
    charts = []
    for curve, by_size in found["curves"].items():
        calls = [(float(size), row["calls_s"]) for size, row in by_size.items() if row["calls_s"] > 0]
        p99 = [(float(size), row["p99_ms"]) for size, row in by_size.items() if row["p99_ms"] > 0]
        charts.append(Chart(f"{database}: {curve}", curve, {"calls/s": calls, "p99 ms": p99}))
    paths = {path: None for reads in found["reads"].values() for path in reads}
    lines = {
        path.partition(",")[0] + (" far" if "last" in path else ""): [
            (float(rows), reads[path]["p99_ms"]) for rows, reads in found["reads"].items()
        ]
        for path in paths
    }
    return [*charts, Chart(f"{database}: p99 of GET, ms", "rows", lines)]


def _growth(found: dict[str, Any], picture: str) -> list[str]:
    rows = [
        [curve, f"{int(size):,}", f"{row['calls_s']:,.0f}", f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}"]
        for curve, by_size in found["curves"].items()
        for size, row in by_size.items()
    ]
    curves = Table(["what grows", "to", "calls/s", "p50 ms", "p99 ms"], rows)
    paths = list(next(iter(found["reads"].values())))
    reads = Table(
        ["rows", *paths],
        [
            [f"{int(size):,}", *(f"{row[path]['p50_ms']:.2f} / {row[path]['p99_ms']:.2f}" for path in paths)]
            for size, row in found["reads"].items()
        ],
    )
    return [
        _setting(found), f"![Calls/s and p99 of each curve]({picture})", str(curves),
        "Reads at one client, p50 / p99 in ms:", str(reads), _memory(found),
    ]  # fmt: skip


def _memory(found: dict[str, Any]) -> str:
    samples = found["memory"]
    picked = {round(sample["seconds"] / 60): sample for sample in samples}
    rows = [
        [str(minute), f"{sample['resident_bytes'] / MEGA:.1f}", f"{sample['anonymous_bytes'] / MEGA:.1f}"]
        for minute, sample in picked.items()
    ]
    return (
        f"Memory under load at 64 connections; idle, without the engine's processes:"
        f" {found['rest_bytes'] / MEGA:.1f} MB. Files are mostly database pages that the kernel can"
        f" reclaim.\n\n{Table(['minute', 'MB resident', 'MB without files'], rows)}"
    )


def _speech(found: dict[str, Any]) -> list[str]:
    alone = [
        [name, "1 process", f"{row['sentences_s']:.0f}", _factor(found, row["sentences_s"]), "", ""]
        for name, row in found["alone"].items()
    ]
    served = [
        [
            f"POST /tts, {cores}", clients, f"{row['calls_s']:.0f}", _factor(found, row["calls_s"]),
            f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}",
        ]
        for cores, by_clients in found["served"].items()
        for clients, row in by_clients.items()
    ]  # fmt: skip
    head = ["", "clients", "sentences/s", "real-time factor", "p50 ms", "p99 ms"]
    chat = [
        [
            clients,
            f"{row['quiet']['p99_ms']:.2f}",
            f"{row['beside_speech']['p99_ms']:.2f}",
            f"{row['sentences_s']:.0f}",
        ]
        for clients, row in found["chat"].items()
    ]
    return [
        _setting(found),
        f"One sentence of {len(found['text'])} characters, {found['audio_s']:.2f} s of sound. The real-time"
        " factor is the time to make a second of sound.",
        str(Table(head, [*alone, *served])),
        *_first_bytes(found),
        "Chat on the core that the server and the engines share, p99 in ms:",
        str(
            Table(["chat clients", "without speech", "with speech saturated", "sentences/s meanwhile"], chat)
        ),
    ]


def _first_bytes(found: dict[str, Any]) -> list[str]:
    """A line; none for a run before it was measured."""
    first = found.get("first_byte")
    if first is None:
        return []
    return [
        f"The first byte of streamed sound: {first['sentence_ms']:.1f} ms for a sentence,"
        f" {first['text_ms']:.1f} ms for 300 characters that begin with it."
    ]


def _neural(found: dict[str, Any]) -> list[str]:
    model = found["factor"]["model"]
    factors = [
        [NEURAL_WORK[name], f"{factor:.3f}", f"{factor / model:.3f}"]
        for name, factor in found["factor"].items()
    ]
    one = found["sentences_s"]["1"]
    rates = [[clients, f"{rate:.3f}", f"{rate / one:.2f}"] for clients, rate in found["sentences_s"].items()]
    chat, peaks = found["chat"], found["peak_mb"]
    first = found["first_byte"]
    return [
        _setting(found),
        f"One sentence of {len(found['text'])} characters, {found['audio_s']:.2f} s of sound without the"
        " silence at its ends. The real-time factor is the time of work for a second of it, on one core.",
        str(Table(["", "real-time factor", "of the model's"], factors)),
        "POST /tts on two cores:",
        str(Table(["clients", "sentences/s", "of one client's"], rates)),
        f"First byte of {first['characters']} characters on two cores, streamed: after"
        f" {first['after_s']:.3f} s, in which the engine worked on the first sentence for"
        f" {first['work_s']:.3f} s.",
        f"p99 of chat: {chat['quiet']['p99_ms']:.1f} ms without speech,"
        f" {chat['beside_speech']['p99_ms']:.1f} ms while speech keeps all processes of Kokoro busy."
        f" Peak memory: {peaks['service']:.0f} MB of the service's main process,"
        f" {peaks['largest child']:.0f} MB of its largest child.",
    ]


def _factor(found: dict[str, Any], sentences_s: float) -> str:
    return f"{1 / (sentences_s * found['audio_s']):.5f}" if sentences_s else "—"


def stream_rows(found: dict[str, Any]) -> Table:
    """A line for the load alone and for each contender, and one for each that is missing."""
    rows = []
    for name, row in found["medians"].items():
        delay = [f"{row['delay_p50_ms']:.2f}", f"{row['delay_p99_ms']:.2f}"] if row["open"] else ["—", "—"]
        memory = f"{row['kb_per_stream']:.0f}" if row["open"] and name != contenders.DIRECT else "—"
        cpu_ms = f"{row['cpu_ms_per_1000']:.0f}" if name != contenders.DIRECT else "—"
        figures = f"{row['first_ms']:.2f}", f"{row['chunks_s']:,.0f}", cpu_ms
        rows.append([name, *figures, *delay, memory, f"{row['broken']} of {row['streams']:,}"])
    rows += [[name, "missing", *[""] * 6] for name in found["missing"]]
    head = "contender | first chunk ms | chunks/s | CPU ms/1,000 | p50 ms | p99 ms | KB a stream | broken"
    return Table(head.split(" | "), rows)


def _streams(found: dict[str, Any]) -> list[str]:
    whole = ", ".join(f"{path} {row['calls_s']:,.0f}" for path, row in found["whole"].items())
    meanings = {**contenders.MEANINGS, contenders.DIRECT: "the load against its own upstream: its limit"}
    listed = [f"- `{name}`: {meanings[name]}." for name in found["medians"]]
    listed += [f"- `{name}` is missing: {reason}." for name, reason in found["missing"].items()]
    return [
        _setting(found),
        "First chunk: the median time from a request to its first chunk, one stream at a time. Chunks/s: 64"
        f" streams of {found['chunks']} chunks, each chunk sent when the one before has arrived, so that none"
        f" share a read. Delays and memory: {found['open_streams']:,} open streams with {found['rate']:,.0f}"
        " chunks/s in all, half of the floor's; from the write of the upstream to the read of the client. Who"
        " does fewer chunks/s than that is not measured so.",
        str(stream_rows(found)),
        "\n".join(listed),
        f"Whole calls per second at 64 connections: {whole}. A bare commit of SQLite in the same run:"
        f" {found['commits']['ms']:.2f} ms.",
    ]


_BODIES = {"table": _comparison, "parts": _parts, "speech": _speech, "neural": _neural, "stream": _streams}
