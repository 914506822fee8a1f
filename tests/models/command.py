"""`myna ARGUMENTS…` in a process that knows the stand-in model: python -m tests.models.command URL ARGUMENTS…

MYNA_TEST_FILE_MAX limits the size of every file that it writes, like a full disk.
"""

import os
import resource
import sys

from myna.cli import main
from myna.engines.models.published import MODELS
from tests.models.stand_in import at

if __name__ == "__main__":
    if limit := int(os.environ.get("MYNA_TEST_FILE_MAX", "0")):
        sys.dont_write_bytecode = True  # a module that is cut at the limit would fail every later process
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    MODELS["tiny"] = at(sys.argv[1])
    main(sys.argv[2:])
