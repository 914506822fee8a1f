"""Results as a run writes them, with round figures."""

from typing import Any

from bench import contenders as who

MACHINE = {
    "cores": 2, "cpu": "a CPU", "memory_bytes": 1, "kernel": "a kernel", "python": "3.11",
    "filesystem": "ext4", "commit": "abc", "time": 0, "layout": {"program": [0], "load": [1]},
}  # fmt: skip


def figures(calls_s: float, p50_ms: float = 1.0, p99_ms: float = 2.0) -> dict[str, float]:
    return {
        "calls_s": calls_s, "failed_share": 0.01, "p50_ms": p50_ms, "p99_ms": p99_ms, "cpu_s_per_1000": 0.1,
        "database_cpu_s_per_1000": 0.0,
    }  # fmt: skip


def comparison() -> dict[str, Any]:
    """A run in which SQLite does 7,000 calls a second of the floor's 10,000, PostgreSQL 6,000."""
    at_64 = {
        who.SQLITE: 7000, who.POSTGRESQL: 6000, who.FLOOR: 10_000, who.PORTKEY_GATEWAY: 600,
        who.LITELLM_PROXY: 200,
    }  # fmt: skip
    p50 = {who.SQLITE: 3.0, who.FLOOR: 0.5}
    return {
        "machine": MACHINE,
        "versions": {"myna": "0"},
        "rounds_of_s": [5, 4],
        "medians": {
            name: {"1": figures(100, p50.get(name, 1.0)), "64": figures(calls)}
            for name, calls in at_64.items()
        },
        "peak_bytes": dict.fromkeys(at_64, 60_000_000),
        "rest_bytes": dict.fromkeys(at_64, 50_000_000),
        "missing": {who.LITELLM_KEYS: "it can't be had"},
        "commits": {"commits_s": 1000.0, "ms": 1.0, "pair_ms": 2.6},
    }


def growth() -> dict[str, Any]:
    """A run that is flat except by rows, where it loses over a tenth, and one slow page."""
    paths = {"/me": figures(1, 1, 3), "/records, page 1,000 or the last": figures(1, 1, 30)}
    return {
        "machine": MACHINE,
        "versions": {},
        "rounds_of_s": [1, 1],
        "curves": {
            "rows": {"1000": figures(1000), "10000000": figures(800)},
            "keys": {"10": figures(1000), "1000000": figures(990)},
            "accounts": {"1": figures(950), "10000": figures(1000)},
            "connections": {"1": figures(0, 0, 0), "2000": figures(1000)},
        },
        "reads": {"1000": {name: figures(1, 1, 1) for name in paths}, "10000000": paths},
        "memory": [
            {"seconds": seconds, "resident_bytes": 2 * anonymous, "anonymous_bytes": anonymous}
            for seconds, anonymous in ((0, 30_000_000), (61, 40_000_000), (600, 44_000_000))
        ],
        "rest_bytes": 50_000_000,
    }


def speech() -> dict[str, Any]:
    """A run in which the service reaches 0.9 of the engine alone, and chat's p99 triples."""
    return {
        "machine": MACHINE,
        "versions": {},
        "rounds_of_s": [1, 1],
        "text": "二十个字",
        "audio_s": 2.0,
        "alone": {"espeak-ng": {"sentences_s": 100.0}, "espeak-ng + mp3": {"sentences_s": 50.0}},
        "served": {"1 core": {"1": figures(40), "8": figures(45)}, "2 cores": {"1": figures(80)}},
        "first_byte": {"sentence_ms": 20.0, "text_ms": 90.0},
        "chat": {
            "8": {"quiet": figures(1, 1, 2), "beside_speech": figures(1, 1, 6), "sentences_s": 30.0},
        },
    }


def neural() -> dict[str, Any]:
    """A run in which POST /tts takes a tenth longer than the model."""
    return {
        "machine": MACHINE,
        "versions": {},
        "rounds_of_s": [2, 20],
        "text": "二十个字",
        "audio_s": 2.0,
        "factor": {"model": 1.0, "child": 1.05, "POST /tts": 1.1},
        "sentences_s": {"1": 0.2, "2": 0.36},
        "first_byte": {"characters": 300, "after_s": 5.06, "work_s": 5.0},
        "chat": {"quiet": figures(1, 1, 2), "beside_speech": figures(1, 1, 3)},
        "peak_mb": {"service": 70.0, "largest child": 420.0},
    }


def stream_figures(first_ms: float, chunks_s: float, *, many_open: bool = True) -> dict[str, Any]:
    return {
        "first_ms": first_ms, "chunks_s": chunks_s, "cpu_ms_per_1000": 50.0, "open": many_open,
        "delay_p50_ms": 1.0 * many_open, "delay_p99_ms": 10.0 * many_open,
        "kb_per_stream": 30.0 * many_open, "streams": 1000, "broken": 0,
    }  # fmt: skip


def streams() -> dict[str, Any]:
    """A run in which Myna passes on 0.9 of the floor's chunks, and takes 2 ms longer for the first."""
    return {
        "machine": MACHINE,
        "versions": {},
        "rounds_of_s": [5, 4],
        "chunks": 200,
        "open_streams": 2000,
        "rate": 5000.0,
        "medians": {
            who.DIRECT: stream_figures(0.1, 40_000),
            who.SQLITE: stream_figures(2.6, 9000),
            who.BARE_FLOOR: stream_figures(0.6, 10_000),
            who.PORTKEY_GATEWAY: stream_figures(30.0, 1500, many_open=False),
            who.LITELLM_PROXY: stream_figures(60.0, 400, many_open=False),
        },
        "whole": {"/v1/chat/completions": figures(1000), "/openai/v1/chat/completions": figures(960)},
        "missing": {who.NGINX: "it isn't installed"},
        "commits": {"commits_s": 1000.0, "ms": 1.0, "pair_ms": 2.6},
    }
