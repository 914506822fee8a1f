"""The model Kokoro in the user's cache, for the demo and the tests; `make model-kokoro` fetches it."""

import os
import sys
from pathlib import Path

from myna.cli.models import ProgressBar
from myna.engines.models import install
from myna.engines.models.progress import Report
from myna.engines.models.published import KOKORO, missing
from myna.errors import CommandError


def cached() -> Path:
    """The folder of the model, which `make clean` does not remove."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "myna/models" / KOKORO.name


def is_cached() -> bool:
    """Whether it is complete there."""
    return not missing(KOKORO, cached())


def ensured(report: Report) -> Path:
    """The folder of the model, which is fetched if need be. Raises CommandError where it can't be."""
    return install.get(KOKORO, cached(), "", report).folder


def main() -> int:
    """Fetches it and prints its folder."""
    try:
        with ProgressBar(quiet=False) as progress:
            print(ensured(progress))  # noqa: T201
    except CommandError as error:
        print(f"It didn't work: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
