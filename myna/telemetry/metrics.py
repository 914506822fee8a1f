"""All metrics. Names end in their unit. Labels have few values, none of which a caller chooses."""

from functools import lru_cache

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("myna_requests", "Requests answered.", ["path", "status"])
REQUEST_SECONDS = Histogram(
    "myna_request_seconds",
    "From the first byte of a request to its answer.",
    ["path"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
REQUEST_ERRORS = Counter(
    "myna_request_errors", "Requests refused or failed, by error type.", ["path", "type"]
)
CHANNEL_REQUESTS = Counter(
    "myna_channel_requests", "Requests by the channel that answered or was tried last.", ["channel", "status"]
)
UNITS_CHARGED = Counter("myna_units_charged", "Units charged for calls.")
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
    "myna_speech_unspoken_characters", "Characters of texts in scripts that the neural voice can't speak."
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


@lru_cache(maxsize=1024)
def seconds_of(path: str) -> Histogram:
    """The duration of requests to `path`. Cached: a label lookup costs more than an observation."""
    return REQUEST_SECONDS.labels(path)


@lru_cache(maxsize=1024)
def places_of(channel: str) -> Gauge:
    """The places in use of a channel. Cached for the same reason."""
    return CHANNEL_PLACES.labels(channel)


@lru_cache
def calls(end: str) -> Counter:
    """The number of calls with this end. Cached for the same reason."""
    return CALLS.labels(end)
