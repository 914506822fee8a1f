"""Limits on the resources of a child process that decodes untrusted files."""

import resource
import sys
from pathlib import Path


def limit_resources(*, memory_max_bytes: int, file_max_bytes: int) -> None:
    """Disables core dumps, and limits the files that this process writes, and its memory beyond what it has
    loaded."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_max_bytes)
    if sys.platform == "linux":  # other systems don't enforce RLIMIT_AS
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_max_bytes)


def _lower(limit: int, to: int) -> None:
    hard = resource.getrlimit(limit)[1]
    lower = to if hard == resource.RLIM_INFINITY else min(to, hard)
    resource.setrlimit(limit, (lower, lower))
