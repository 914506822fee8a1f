"""Every metric, in one place. Names carry their unit; labels are few and never a caller's text."""

from functools import lru_cache

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("myna_requests", "Requests answered.", ["path", "status"])
REQUEST_SECONDS = Histogram(
    "myna_request_seconds",
    "From the first byte of a request to its answer.",
    ["path"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
UNITS_CHARGED = Counter("myna_units_charged", "Units taken for calls.")
CALLS = Counter("myna_calls", "Calls that were charged, by how they ended.", ["end"])
UPSTREAM_FAILURES = Counter("myna_upstream_failures", "Failed tries of a channel.", ["channel", "fault"])
COMMITS_WAITING = Gauge(
    "myna_commits_waiting", "Operations waiting for the database.", multiprocess_mode="livesum"
)
AUDIT_BREACHES = Gauge(
    "myna_audit_breaches", "Breaches that the last audit found.", multiprocess_mode="mostrecent"
)
AUDIT_TIME = Gauge(
    "myna_audit_timestamp_seconds", "When the last audit ended.", multiprocess_mode="mostrecent"
)


@lru_cache(maxsize=1024)
def seconds_of(path: str) -> Histogram:
    """How long requests to this path took, with the label bound: looking it up costs more than counting."""
    return REQUEST_SECONDS.labels(path)


@lru_cache
def calls(end: str) -> Counter:
    """The calls that ended so; likewise."""
    return CALLS.labels(end)
