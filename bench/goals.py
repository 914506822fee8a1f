"""What the figures must reach, each computed from the results of one run."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bench import contenders as who
from bench.load import CHAT_PATH
from bench.results import Table

Results = dict[str, Any]
AT, ALONE = "64", "1"
COMMITS_MAX = 2.5
MINUTE_S = 60
FIRST_SOUND_MAX_MS = 50
OPENAI_PATH = "/openai/v1/chat/completions"


class Goal(NamedTuple):
    """A figure and its goal. `met` is None where it was not measured."""

    what: str
    goal: str
    figure: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "yes", False: "**no**", None: "not measured"}[self.met]


def all_goals(found: dict[str, Results]) -> list[Goal]:
    """Every goal, met or not; each of the results may be missing."""
    table, speech, neural = (found.get(name, {}) for name in ("table", "speech", "neural"))
    goals = _against_the_floor(table) + _against_peers(table) + [_latency(table)]
    for database in ("sqlite", "postgresql"):
        if database == "sqlite" or found.get(f"grow-{database}"):
            goals += flat(found.get(f"grow-{database}", {}), database)
    goals += [*on_speech(speech), *on_neural_speech(neural)]
    goals += on_memory(found.get("grow-sqlite", {}), table)
    return goals + on_streams(found.get("stream", {}))


def as_table(goals: list[Goal]) -> Table:
    """For the page and the terminal."""
    rows = [[goal.what, goal.goal, goal.figure, goal.verdict] for goal in goals]
    return Table(["figure", "goal", "this run", "met"], rows)


def _at_least(what: str, least: float, figure: Callable[[], float], unit: str = "") -> Goal:
    return _judged(what, f"at least {least:g}{unit}", figure, lambda found: found >= least, unit)


def _at_most(what: str, most: float, figure: Callable[[], float], unit: str = "") -> Goal:
    return _judged(what, f"at most {most:g}{unit}", figure, lambda found: found <= most, unit)


def _judged(
    what: str, goal: str, figure: Callable[[], float], judge: Callable[[float], bool], unit: str
) -> Goal:
    try:
        found = figure()
    except (KeyError, ValueError, ZeroDivisionError):  # one of its parts is missing from the results
        return Goal(what=what, goal=goal, figure="—", met=None)
    return Goal(what=what, goal=goal, figure=f"{found:.3g}{unit}", met=judge(found))


def _calls(table: Results, name: str, connections: str = AT) -> float:
    return float(table["medians"][name][connections]["calls_s"])


def _against_the_floor(table: Results) -> list[Goal]:
    def ratio(name: str, to: str) -> Callable[[], float]:
        return lambda: _calls(table, name) / _calls(table, to)

    where = "calls/s at 64 connections against the floor"
    return [
        _at_least(f"SQLite: {where}", 0.65, ratio(who.SQLITE, who.FLOOR)),
        _at_least(f"PostgreSQL, one process: {where}", 0.65, ratio(who.POSTGRESQL, who.FLOOR)),
        _at_least("PostgreSQL, two processes against one", 1.6, ratio(who.POSTGRESQL_2, who.POSTGRESQL)),
    ]


def _against_peers(table: Results) -> list[Goal]:
    def ratio(name: str, peer: str) -> Callable[[], float]:
        return lambda: _calls(table, name) / _calls(table, peer)

    peers = (("Portkey", who.PORTKEY_GATEWAY, 8), ("LiteLLM", who.LITELLM_PROXY, 60))
    fastest = "SQLite: calls/s at 64 connections against rolter, which keeps no books"
    return [
        _at_least(fastest, 0.6, ratio(who.SQLITE, who.ROLTER)),
    ] + [
        _at_least(f"{database}: calls/s at 64 connections against {peer}", least, ratio(name, contender), "x")
        for peer, contender, least in peers
        for database, name in (("SQLite", who.SQLITE), ("PostgreSQL", who.POSTGRESQL))
    ]


def _latency(table: Results) -> Goal:
    what = f"p50 at 1 connection, SQLite: the floor's plus {COMMITS_MAX:g} bare commits"
    try:
        p50 = {name: row[ALONE]["p50_ms"] for name, row in table["medians"].items()}
        most = p50[who.FLOOR] + COMMITS_MAX * table["commits"]["ms"]
        beside = f" (Portkey: {p50[who.PORTKEY_GATEWAY]:.2f} ms)" if who.PORTKEY_GATEWAY in p50 else ""
        figure = f"{p50[who.SQLITE]:.2f} ms{beside}"
        return Goal(what=what, goal=f"at most {most:.2f} ms", figure=figure, met=p50[who.SQLITE] <= most)
    except KeyError:
        return Goal(what=what, goal="at most that", figure="—", met=None)


def flat(growth: Results, database: str) -> list[Goal]:
    """What must not get slower as a database grows; the same goals in the same order for each."""

    def ratio(curve: str, large: str, small: str) -> Callable[[], float]:
        return lambda: growth["curves"][curve][large]["calls_s"] / growth["curves"][curve][small]["calls_s"]

    most = max(growth.get("curves", {}).get("rows", {"10000000": 0}), key=int)
    rows = f"{database}: {int(most):,} rows"
    return [
        _at_least(f"{database}: one account against 10,000, calls/s", 0.9, ratio("accounts", "1", "10000")),
        _at_least(f"{rows} against 1,000, calls/s", 0.9, ratio("rows", most, "1000")),
        _at_most(
            f"{rows}: p99 of the slowest GET, one client", 10,
            lambda: max(figures["p99_ms"] for figures in growth["reads"][most].values()), " ms",
        ),
        _at_least(f"{database}: 1,000,000 keys against 10, calls/s", 0.95, ratio("keys", "1000000", "10")),
    ]  # fmt: skip


def on_speech(speech: Results) -> list[Goal]:
    """Speech beside the engine alone, and chat beside speech."""

    def share() -> float:
        served = speech["served"]["1 core"]
        alone = speech["alone"]["espeak-ng + mp3"]["sentences_s"]
        return float(max(figures["calls_s"] for figures in served.values()) / alone)

    def slower() -> float:
        return max(
            float(chat["beside_speech"]["p99_ms"] / chat["quiet"]["p99_ms"])
            for chat in speech["chat"].values()
        )

    def later_ms() -> float:
        return float(speech["first_byte"]["text_ms"] - speech["first_byte"]["sentence_ms"])

    return [
        _at_least("POST /tts, 20 characters, one core, against espeak-ng + mp3 alone", 0.85, share),
        _at_most(
            "espeak-ng, streamed: first byte of 300 characters, after that of their first sentence alone",
            FIRST_SOUND_MAX_MS, later_ms, " ms",
        ),
        _at_most("p99 of chat while speech saturates the engines, against without", 2, slower, "x"),
    ]  # fmt: skip


def on_neural_speech(neural: Results) -> list[Goal]:
    """The neural voice beside its bare model, and chat beside it."""

    def work() -> float:
        return float(neural["factor"]["POST /tts"] / neural["factor"]["model"])

    def more() -> float:
        return float(neural["sentences_s"]["2"] / neural["sentences_s"]["1"])

    def added_ms() -> float:
        first = neural["first_byte"]
        return float(first["after_s"] - first["work_s"]) * 1e3

    def slower() -> float:
        return float(neural["chat"]["beside_speech"]["p99_ms"] / neural["chat"]["quiet"]["p99_ms"])

    return [
        _at_most("Kokoro by POST /tts against the model alone, one core", 1.05, work, "x"),
        _at_least("Kokoro, two clients on two cores against one", 1.7, more, "x"),
        _at_most(
            "Kokoro, streamed: first byte of 300 characters, beyond the work on their first sentence",
            FIRST_SOUND_MAX_MS, added_ms, " ms",
        ),
        _at_most("p99 of chat beside Kokoro, against without", 2, slower, "x"),
        _at_most("memory of a Kokoro process", 450, lambda: neural["peak_mb"]["largest child"], " MB"),
    ]  # fmt: skip


def on_memory(growth: Results, table: Results) -> list[Goal]:
    """Memory under load and idle."""

    def grown() -> float:
        samples = growth["memory"]
        after_one = min(samples, key=lambda sample: abs(sample["seconds"] - MINUTE_S))
        return float(samples[-1]["anonymous_bytes"] / after_one["anonymous_bytes"])

    minutes = growth["memory"][-1]["seconds"] / 60 if growth.get("memory") else 10
    return [
        _at_most(
            f"memory after {minutes:.0f} minutes of load against 1 minute, without files", 1.05, grown, "x"
        ),
        _at_most("memory of an idle process", 80, lambda: table["rest_bytes"][who.SQLITE] / 1e6, " MB"),
    ]


def on_streams(found: Results) -> list[Goal]:
    """Streams through Myna against the bare floor and the peers, and whole calls on both base paths."""

    def row(name: str) -> Results:
        return dict(found["medians"][name])

    def ratio(to: str) -> Callable[[], float]:
        return lambda: float(row(who.SQLITE)["chunks_s"] / row(to)["chunks_s"])

    def loaded(figure: str) -> Callable[[], float]:
        return lambda: float(row(who.SQLITE)[figure]) if row(who.SQLITE)["open"] else 1 / 0

    def whole() -> float:
        return float(found["whole"][OPENAI_PATH]["calls_s"] / found["whole"][CHAT_PATH]["calls_s"])

    where = f"{found.get('open_streams', 2000):,} open streams, half of the floor's chunks/s"
    return [
        *_first_chunk(found),
        _at_least("chunks/s, 64 streams of 200 chunks, against the floor", 0.8, ratio(who.BARE_FLOOR)),
        _at_least("chunks/s against Portkey", 5, ratio(who.PORTKEY_GATEWAY), "x"),
        _at_least("chunks/s against LiteLLM", 30, ratio(who.LITELLM_PROXY), "x"),
        _at_most(f"{where}: p99 of the delay of a chunk", 20, loaded("delay_p99_ms"), " ms"),
        _at_most(f"{where}: memory", 60, loaded("kb_per_stream"), " KB a stream"),
        _at_least("whole calls/s on /openai/v1 against /v1", 0.95, whole),
    ]


def _first_chunk(found: Results) -> list[Goal]:
    """The time to the first chunk, in addition to that of the load alone."""
    first = {name: row["first_ms"] for name, row in found.get("medians", {}).items()}
    goals = []
    for what, other, commits in (
        ("the floor's plus two bare commits", who.BARE_FLOOR, 2),
        ("Portkey's", who.PORTKEY_GATEWAY, 0),
    ):
        name = f"added time to the first chunk, one stream, p50: {what}"
        if not {who.SQLITE, who.DIRECT, other} <= first.keys():
            goals.append(Goal(what=name, goal="at most that", figure="—", met=None))
            continue
        most = first[other] - first[who.DIRECT] + commits * found["commits"]["ms"]
        added = first[who.SQLITE] - first[who.DIRECT]
        goal = f"at most {most:.2f} ms"
        goals.append(Goal(what=name, goal=goal, figure=f"{added:.2f} ms", met=added <= most))
    return goals
