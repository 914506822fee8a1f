"""The program of all child processes: `python -m myna.engines.pool.child_program MODULE PARENT_PID`.

See `child_main.py`.
"""

import sys

from myna.engines.pool.child_main import serve

if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
