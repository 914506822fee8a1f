"""All metrics. Names end in their unit. Labels have few values, none of which a caller chooses.

One observation is up to six Python calls, so what each call counts is noted here and taken into the metrics
by `fold`: at a scrape, with the access log, and every few seconds.
"""

import collections
import logging
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from functools import lru_cache, partial

import prometheus_client
from prometheus_client import Counter, Gauge

from myna.lib.telemetry.requests import RequestDetails

log = logging.getLogger(__name__)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
"""Fewer, since there are as many series as channels and routes."""

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder of the metrics of several processes; read at the import."""


class Histogram(prometheus_client.Histogram):
    """A histogram that takes many observations for the price of one."""

    def observe_all(self, amounts: Collection[float]) -> None:
        """Observes each of these amounts."""
        self._sum.inc(sum(amounts))
        buckets = map(partial(bisect_left, self._upper_bounds), amounts)
        for bucket, count in collections.Counter(buckets).items():
            self._buckets[bucket].inc(count)


BUILD = Gauge("myna_build_info", "The version of Myna.", ["version"], multiprocess_mode="livemax")
REQUESTS = Counter("myna_requests", "Requests answered.", ["path", "status"])
REQUEST_SECONDS = Histogram(
    "myna_request_seconds",
    "From the first byte of a request to its answer.",
    ["path"],
    buckets=SECONDS,
)
REQUEST_ERRORS = Counter(
    "myna_request_errors", "Requests refused or failed, by error type.", ["path", "type"]
)
CHANNEL_REQUESTS = Counter(
    "myna_channel_requests", "Requests by the channel that answered or was tried last.", ["channel", "status"]
)
CHANNEL_SECONDS = Histogram(
    "myna_channel_seconds",
    "From the first byte of a charged request to the end of its answer.",
    ["channel", "route"],
    buckets=CALL_SECONDS,
)
FIRST_BYTE_SECONDS = Histogram(
    "myna_channel_first_byte_seconds",
    "From a streamed request to a channel to the first byte of its answer.",
    ["channel", "route"],
    buckets=CALL_SECONDS,
)
TOKENS = Counter("myna_tokens", "Tokens of calls.", ["channel", "route", "kind", "counted"])
CALLS_OPEN = Gauge("myna_calls_open", "Charged calls in progress.", multiprocess_mode="livesum")
STREAMS_OPEN = Gauge("myna_streams_open", "Streamed answers in progress.", multiprocess_mode="livesum")
UNITS_CHARGED = Counter("myna_units_charged", "Units charged for calls.", ["route"])
ENGINE_UP = Gauge(
    "myna_engine_up", "Whether an engine speaks, by its channel.", ["engine"], multiprocess_mode="livemin"
)
ENGINE_PROCESSES = Gauge(
    "myna_engine_processes", "Running processes of an engine.", ["engine"], multiprocess_mode="livesum"
)
ENGINE_WAITING = Gauge(
    "myna_engine_jobs_waiting", "Jobs in the queue of an engine.", ["engine"], multiprocess_mode="livesum"
)
ENGINE_WAIT_SECONDS = Histogram(
    "myna_engine_wait_seconds", "Time of jobs in the queue of an engine.", ["engine"], buckets=CALL_SECONDS
)
NODES_ONLINE = Gauge("myna_nodes_online", "Compute nodes online.", multiprocess_mode="mostrecent")
COMMIT_SECONDS = Histogram(
    "myna_commit_seconds", "Commits of charges and of ends of calls.", buckets=SECONDS[:13]
)
DATABASE_WAIT_SECONDS = Histogram(
    "myna_database_wait_seconds",
    "Time until a query gets one of the process's connections to PostgreSQL.",
    buckets=SECONDS[:13],
)
CALLS = Counter("myna_calls", "Calls that were charged, by how they ended.", ["end"])
UPSTREAM_FAILURES = Counter("myna_upstream_failures", "Failed attempts of a channel.", ["channel", "fault"])
CIRCUIT_OPEN = Gauge(
    "myna_channel_circuit_open",
    "Processes in which the circuit of a channel is open: it opened, and no call has succeeded since.",
    ["channel"],
    multiprocess_mode="livesum",
)
CHANNEL_PLACES = Gauge(
    "myna_channel_requests_open",
    "Requests to a channel that are open: the places in use of its limit.",
    ["channel"],
    multiprocess_mode="livesum",
)
CIRCUIT_OPENED = Counter("myna_channel_circuit_opened", "How often a circuit opened.", ["channel"])
UNSPOKEN_CHARACTERS = Counter(
    "myna_speech_unspoken_characters", "Characters of texts that the voice can't speak."
)
COMMITS_WAITING = Gauge(
    "myna_commits_waiting", "Operations waiting for the database.", multiprocess_mode="livesum"
)
LOG_LINES_DROPPED = Counter("myna_log_lines_dropped", "Lines of the log that could not be written.")
DISK_FREE_BYTES = Gauge(
    "myna_disk_free_bytes",
    "Free space of the data folder; below the reserve speech and uploads are refused.",
    multiprocess_mode="mostrecent",
)
AUDIT_BREACHES = Gauge(
    "myna_audit_breaches", "Breaches that the last audit found.", multiprocess_mode="mostrecent"
)
AUDIT_TIME = Gauge(
    "myna_audit_timestamp_seconds", "When the last audit ended.", multiprocess_mode="mostrecent"
)
AUDIT_CHECKED = Gauge(
    "myna_audit_checked", "What the last audit checked.", ["kind"], multiprocess_mode="mostrecent"
)

added: defaultdict[Counter, int] = defaultdict(int)
levels: defaultdict[Gauge, int] = defaultdict(int)
observed: defaultdict[Histogram, deque[float]] = defaultdict(
    partial(deque, maxlen=10_000)
)  # a node never folds


def not_spoken(details: RequestDetails, counts: Mapping[str, int]) -> None:
    """A voice does not speak these characters of the request's text."""
    count = sum(counts.values())
    UNSPOKEN_CHARACTERS.inc(count)
    log.info("%d characters were not spoken, of: %s", count, ", ".join(counts))
    details.unspoken.update(counts)


def fold() -> None:
    """Takes into the metrics what the event loop has noted since the last time."""
    for counter, count in added.items():
        counter.inc(count)
    for gauge, level in levels.items():
        gauge.set(level)
    for histogram, amounts in observed.items():
        histogram.observe_all(amounts)
    added.clear()
    observed.clear()


class OfCall:
    """The metrics of calls of one route that one channel answered."""

    def __init__(self, channel: str, route: str) -> None:
        self._seconds = CHANNEL_SECONDS.labels(channel, route)
        self._first_byte_seconds = FIRST_BYTE_SECONDS.labels(channel, route)
        self._tokens = {
            counted: [TOKENS.labels(channel, route, kind, str(int(counted))) for kind in ("input", "output")]
            for counted in (False, True)
        }

    def count(self, details: RequestDetails, seconds: float) -> None:
        """Counts a completed request."""
        observed[self._seconds].append(seconds)
        if details.first_byte_ms:
            observed[self._first_byte_seconds].append(details.first_byte_ms / 1000)
        if details.input_tokens or details.output_tokens:
            given, made = self._tokens[details.tokens_counted]
            added[given] += details.input_tokens
            added[made] += details.output_tokens


of_call = lru_cache(maxsize=1024)(OfCall)
"""The metrics of the calls of a channel and a route. Cached, as those below: a label lookup costs more than
an observation."""
seconds_of = lru_cache(maxsize=1024)(REQUEST_SECONDS.labels)
"""The duration of requests to a path."""
units_of = lru_cache(maxsize=1024)(UNITS_CHARGED.labels)
"""The units charged for calls of a route."""
calls = lru_cache(CALLS.labels)
"""The number of calls with this end."""
