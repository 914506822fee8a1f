"""Mutation testing: mutmut, then the guards in SQL. `make mutants`, or with MODULE=myna/accounts/caps.py.

Results stay in `mutants/`: a stopped run goes on, a second one tests what changed. With modules, those are
tested anew. Prints each mutant that no test noticed, but for those that differ only in a text.
"""

import os
import re
import subprocess
import sys

from tests.mutants import sql
from tests.rig import postgres

MUTMUT = (sys.executable, "-m", "mutmut")
TEXTS = re.compile(r"""(["'])(?:(?!\1).)*\1""")


def main(modules: list[str]) -> bool:
    """Whether everything was noticed."""
    server = postgres.start()
    os.environ["MYNA_TEST_DATABASE_URL"] = server.url
    try:
        names = [f"{module.removesuffix('.py').replace('/', '.')}.*" for module in modules]
        subprocess.run([*MUTMUT, "run", "--max-children", "2", *names], check=True)
        found = survivors(tuple(name.removesuffix("*") for name in names))
        found += [] if modules else sql.survivors()
    finally:
        server.close()
    sys.stdout.write("\n".join([*found, f"{len(found)} survived\n"]))
    return not found


def survivors(prefixes: tuple[str, ...]) -> list[str]:
    """What mutmut found, as name and changed lines."""
    listed = subprocess.run([*MUTMUT, "results"], check=True, capture_output=True, text=True).stdout
    found = []
    for name, state in re.findall(r"^ +(\S+): (.+)$", listed, re.MULTILINE):
        if state in ("survived", "no tests") and (not prefixes or name.startswith(prefixes)):
            shown = subprocess.run([*MUTMUT, "show", name], check=True, capture_output=True, text=True).stdout
            changes = re.findall(r"^[-+](?![-+]{2} ).*$", shown, re.MULTILINE)
            if len({TEXTS.sub("", line[1:]) for line in changes}) > 1:
                found.append("\n".join([f"{name}: {state}", *changes]))
    return found


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
